// The trace browser on a page: it takes the place of its saved form, which is the output of the cell, for as long as there is a
// kernel. All HTML comes from the kernel, where it is made harmless. Nothing is decided here.
// There is no build step: browser/widget.py joins this file and others to the one module that the browser gets.

const BUSY = "The kernel is busy and will do this as soon as it responds.";

/** The outputs of the notebook that hold the saved form. */
class SavedForms extends NotebookOutputs {
  shows(data) {
    const html = data?.["text/html"];
    return (Array.isArray(html) ? html.join("") : html ?? "").includes(this.id);
  }
}

/** What all places that show one browser have in common: the list, the opened run, and what was asked of the kernel. */
class Story {
  constructor(model) {
    this.model = model;
    const name = `agentnb-browser-${model.get("key")}`;
    this.outputs = new SavedForms(model, name);
    this.saved = document.getElementsByClassName(name);
    this.views = new Set();
    this.waiting = new Map();
    this.count = 0;
    this.page = crypto.randomUUID?.() ?? String(Math.random());
    this.greeted = () => {};
    model.on("msg:custom", (message) => this.hear(message));
    this.forget = this.outputs.onGone(() => this.end());
    this.observer = new MutationObserver(() => this.look());
    this.observer.observe(document.body, { childList: true, subtree: true });
    this.look();
  }

  /** Take the place of each saved form that has appeared. A notebook draws its outputs anew when it likes. */
  look() {
    for (const view of this.views) if (!view.host.parentElement) this.close(view);
    for (const form of this.saved) {
      const host = form.closest(".jp-OutputArea-output") ?? form;
      if (host.agentnbBrowser || !host.parentElement) continue;
      host.agentnbBrowser = new View(this, host);
      this.views.add(host.agentnbBrowser);
      if (this.list && this.opened) host.agentnbBrowser.all();
      else this.greet();
    }
  }

  close(view) {
    this.views.delete(view);
    view.close();
  }

  /** Ask for all there is to show until it comes. */
  greet() {
    this.greeted();
    this.greeted = repeated(() => this.say({ do: "hello", page: this.page }));
  }

  say(message) {
    try {
      this.model.send(message);
      return true;
    } catch {
      this.end(); // the kernel was restarted, or has died
      return false;
    }
  }

  ask(message) {
    const id = `${this.page}:${++this.count}`;
    this.waiting.set(id, setTimeout(() => this.tell(BUSY), PATIENCE));
    this.say({ ...message, id });
  }

  tell(text) {
    this.views.forEach((view) => view.tell(text));
  }

  hear(message) {
    if (message.kind === "frame") this.frame = message;
    else if (message.kind === "list") {
      this.list = message;
      if (this.opened) this.views.forEach((view) => view.listed());
    } else if (message.kind === "opened") this.open(message);
    else if (message.kind === "heard" && this.waiting.has(message.id)) {
      clearTimeout(this.waiting.get(message.id));
      this.waiting.delete(message.id);
      this.tell(message.error);
    }
  }

  open(message) {
    this.greeted();
    const before = this.opened;
    this.opened = message;
    if (before?.html === message.html) return; // answers a greeting that was sent twice: the reader stays in place
    this.views.forEach((view) => (before ? view.opened() : view.all()));
    if (before) this.keep();
  }

  /** Write the saved form with the run that is open now into the notebook: a kernel cannot after a page was loaded again. */
  keep() {
    if (!this.frame) return;
    const html = this.frame.html.replace(OPENED, () => this.opened.html);
    this.outputs.keep({ "text/html": html, "text/plain": this.frame.text });
  }

  /** The kernel has gone, or the browser was closed: the saved form is shown again. */
  end() {
    this.greeted();
    this.observer.disconnect();
    this.forget();
    for (const timer of this.waiting.values()) clearTimeout(timer);
    for (const view of [...this.views]) this.close(view);
  }
}

export default {
  initialize({ model }) {
    const story = new Story(model);
    return () => story.end();
  },
  render({ el }) {
    el.textContent = "";
  },
};
