// A running experiment: its progress, and the buttons that pause and stop it. All HTML comes from the kernel, where it is made harmless.
// There is no build step: experiments/progress_box.py joins this file and document.js to the one module that the browser gets.

const PARTS = ["progress", "controls", "note"];

/** What all views of one experiment on this page have in common. */
class Box {
  constructor(model) {
    this.model = model;
    this.outputs = new NotebookOutputs(model, model.get("key"));
    this.restored = this.outputs.hold; // a page that was loaded again: no update of its outputs will ever reach it
    this.views = new Set();
    this.waiting = new Map(); // how to repeat the messages no longer that nobody has heard
    model.on("change:frame", () => this.changed());
    model.on("msg:custom", ({ heard }) => this.heard(heard));
    this.forget = this.outputs.onGone(() => this.lost());
    if (!this.restored) return;
    this.say("hello");
    this.changed(); // it may have ended meanwhile
  }

  changed() {
    const { over, saved } = this.model.get("frame");
    this.views.forEach((view) => view.draw());
    if (over && this.restored) this.outputs.keep(saved);
  }

  /** Send a message until it is heard. Each of them may be heard twice. Say how to interrupt if a press is not heard. */
  say(action) {
    this.waiting.get(action)?.();
    const send = (attempt) => {
      if (attempt === REPEATS.length && action !== "hello") this.views.forEach((view) => view.note(STUCK));
      try {
        this.model.send({ do: action });
        return true;
      } catch {
        return false; // the kernel was restarted, or has died
      }
    };
    this.waiting.set(action, repeated(send));
  }

  heard(action) {
    this.waiting.get(action)?.();
    this.waiting.delete(action);
    this.views.forEach((view) => view.draw());
  }

  /** The person pressed a button. A later press replaces what was not heard yet: a repeated Pause must not undo a Resume. */
  press(action) {
    for (const other of ["pause", "resume", "stop"]) this.heard(other);
    this.say(action);
  }

  lost() {
    const { over, saved } = this.model.get("frame");
    this.end();
    if (!over) setTimeout(() => this.outputs.keep(saved));
  }

  close(view) {
    this.views.delete(view);
    if (this.views.size || !this.model.get("frame").over) return;
    try {
      this.model.send({ do: "gone" });
    } catch {
      // as above
    }
  }

  end() {
    this.waiting.forEach((stop) => stop());
    this.waiting.clear();
    this.forget();
  }
}

/** One place where the experiment is shown. */
class View {
  constructor(box, el) {
    this.box = box;
    this.root = document.createElement("div");
    this.root.className = "agentnb-exp";
    this.root.setAttribute("role", "region");
    this.root.setAttribute("aria-label", "Experiment");
    this.root.innerHTML =
      '<div data-part="progress"></div><div class="agentnb-exp-foot"><div data-part="controls" class="agentnb-buttons"></div><div data-part="note" role="status"></div></div>';
    this.root.addEventListener("click", ({ target }) => {
      const button = target.closest("button[data-do]");
      if (button) box.press(button.dataset.do);
    });
    el.append(this.root);
    this.shown = {};
    box.views.add(this);
    this.draw();
    box.say("hello");
  }

  /** Say what the kernel cannot say itself, until it is drawn anew. */
  note(text) {
    this.shown.note = null;
    this.root.querySelector("[data-part=note]").textContent = text;
  }

  /** Change what is other than before: a button made anew loses the click that is on its way, and the focus. */
  draw() {
    const parts = this.box.model.get("frame").parts ?? {};
    for (const part of PARTS) {
      const html = parts[part] ?? "";
      if (this.shown[part] === html) continue;
      this.shown[part] = html;
      const place = this.root.querySelector(`[data-part=${part}]`);
      const focused = [...place.querySelectorAll("button")].indexOf(document.activeElement);
      place.innerHTML = html;
      if (focused >= 0) place.querySelectorAll("button")[focused]?.focus({ preventScroll: true });
    }
  }
}

const boxes = new Map(); // by the key of their widget: each hook is handed another object for the same model

export default {
  initialize({ model }) {
    const key = model.get("key");
    boxes.set(key, new Box(model));
    return () => {
      boxes.get(key)?.end();
      boxes.delete(key);
    };
  },
  render({ model, el }) {
    const box = boxes.get(model.get("key"));
    const view = new View(box, el);
    return () => box.close(view);
  },
};
