// The panel: a form that starts runs, the list of runs, and a page for the one that is shown. All HTML comes from the kernel,
// where it is made harmless. Nothing is decided here.

const LOOK = 1000; // milliseconds between two questions for what can be chosen now
const KEEP = 300; // milliseconds after the last key, until what is typed is kept

class Part {
  constructor(model, el, label) {
    this.model = model;
    this.root = document.createElement("section");
    this.root.className = `agentnb-panel-part agentnb-panel-${model.get("part")}`;
    this.root.setAttribute("aria-label", label);
    this.root.dataset.lmSuppressShortcuts = "true"; // the notebook has keys of its own: x would cut the cell
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.heard = [];
    this.count = 0;
    el.append(this.root);
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  /** Do it now, and whenever one of these traits changes. */
  follow(traits, show) {
    const listen = () => show();
    for (const trait of traits) {
      this.model.on(`change:${trait}`, listen);
      this.heard.push(() => this.model.off(`change:${trait}`, listen));
    }
    show();
  }

  /** Tell the kernel a wish; the button waits until it is heard, so that no impatient click starts a second run. */
  ask(message, button) {
    const id = `${PAGE}:${++this.count}`;
    const late = setTimeout(() => this.tell("The kernel is busy and will do this as soon as it responds."), PATIENCE);
    if (button) button.disabled = true;
    const listen = (answer) => {
      if (answer.kind !== "heard" || answer.id !== id) return;
      clearTimeout(late);
      this.model.off("msg:custom", listen);
      if (button) {
        const focused = document.activeElement === document.body;
        button.disabled = false;
        if (focused) button.focus(); // a button that is disabled loses it
      }
      this.tell(this.model.get("error"));
    };
    this.model.on("msg:custom", listen);
    this.model.send({ ...message, id });
  }

  tell(error) {
    const place = this.find("[role=alert]");
    if (place && place.textContent !== error) place.textContent = error;
  }

  key(event) {
    event.stopPropagation(); // as above, for frontends that listen further up
  }

  close() {
    for (const forget of this.heard) forget();
  }
}

class Form extends Part {
  constructor(model, el) {
    super(model, el, "Start a run");
    this.root.innerHTML = FORM.replaceAll("ID", `agentnb-${++forms}`);
    this.prompt = this.find("textarea");
    this.name = this.find("input");
    this.guidance = this.find("select");
    this.start = this.find("[data-start]");
    this.looked = 0;
    this.follow(["offers", "chosen"], () => this.show());
    this.follow(["error"], () => this.tell(model.get("error")));
    this.follow(["note"], () => (this.find("[role=status]").textContent = model.get("note")));
    this.root.addEventListener("input", () => this.typed());
    this.root.addEventListener("focusin", () => this.look());
    this.root.addEventListener("pointerenter", () => this.look());
    this.start.addEventListener("click", () => this.begin());
    this.outputs = new NotebookOutputs(model, model.get("whole"));
    // Later: the card of a run that the panel shows hears of it too.
    this.heard.push(this.outputs.onGone(() => setTimeout(() => this.gone())));
  }

  /** The kernel has gone, and the panel with it: leave what is to be saved in its place, with the run that is shown. */
  gone() {
    const run = this.root.closest(".agentnb-panel-whole")?.querySelector(".agentnb-run")?.cloneNode(true);
    const place = document.createElement("div");
    place.className = "mathjax_ignore tex2jax_ignore";
    place.innerHTML = this.model.get("remains");
    const text = place.textContent;
    if (run) place.append(run);
    this.outputs.keep({ "text/html": place.outerHTML, "text/plain": text });
  }

  /** What is offered, with what the person has chosen of it. Fields in which somebody types are left alone. */
  show() {
    const offers = this.model.get("offers");
    const chosen = this.model.get("chosen");
    for (const [field, value] of [[this.prompt, chosen.prompt ?? ""], [this.name, chosen.model ?? ""]]) {
      if (field !== document.activeElement && field.value !== value) field.value = value;
    }
    this.name.placeholder = offers.model || "provider:model";
    fill(this.find("datalist"), offers.models ?? [], (name) => new Option("", name));
    fill(this.guidance, offers.guidance ?? [], (name) => new Option(name === offers.default_guidance ? `${name} (default)` : name, name));
    const wanted = chosen.guidance || offers.default_guidance;
    this.guidance.value = (offers.guidance ?? []).includes(wanted) ? wanted : offers.default_guidance;
    const tools = offers.tools ?? [];
    const focused = this.root.contains(document.activeElement) ? document.activeElement.value : undefined;
    if (fill(this.find("[data-tools]"), tools, box) && focused) this.find(`[data-tools] input[value="${CSS.escape(focused)}"]`)?.focus();
    for (const tick of this.ticks()) tick.checked = (chosen.tools ?? []).includes(tick.value);
  }

  ticks() {
    return [...this.root.querySelectorAll("[data-tools] input")];
  }

  chosen() {
    const tools = this.ticks().filter((tick) => tick.checked).map((tick) => tick.value);
    return { prompt: this.prompt.value, model: this.name.value.trim(), tools, guidance: this.guidance.value };
  }

  typed() {
    clearTimeout(this.keeping);
    this.keeping = setTimeout(() => this.keep(), KEEP);
  }

  keep() {
    clearTimeout(this.keeping);
    this.model.set("chosen", this.chosen());
    this.model.save_changes();
  }

  look() {
    if (Date.now() - this.looked < LOOK) return;
    this.looked = Date.now();
    this.model.send({ do: "look" });
  }

  begin() {
    if (this.start.disabled) return;
    this.keep();
    this.ask({ do: "start", ...this.chosen() }, this.start);
  }

  key(event) {
    super.key(event);
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    this.begin();
  }

  close() {
    super.close();
    clearTimeout(this.keeping);
  }
}

class List extends Part {
  constructor(model, el) {
    super(model, el, "Runs");
    this.root.innerHTML = LIST;
    this.place = this.find("[data-list]");
    this.follow(["html", "selected"], () => this.show());
    this.follow(["note"], () => (this.find("[data-note]").textContent = model.get("note")));
    this.follow(["error"], () => this.tell(model.get("error")));
    this.place.addEventListener("click", (event) => this.open(event.target.closest("[data-run]")));
    this.find("[data-refresh]").addEventListener("click", (event) => this.ask({ do: "refresh" }, event.currentTarget));
  }

  show() {
    const html = this.model.get("html");
    const focused = this.place.contains(document.activeElement) ? document.activeElement.dataset.run : undefined;
    if (this.shown !== html) this.place.innerHTML = this.shown = html;
    for (const one of this.place.querySelectorAll("[data-run]")) {
      if (one.dataset.run === this.model.get("selected")) one.setAttribute("aria-current", "true");
      else one.removeAttribute("aria-current");
      if (one.dataset.run === focused) one.focus();
    }
  }

  open(run) {
    if (run) this.ask({ do: "open", run: run.dataset.run });
  }
}

class Page extends Part {
  constructor(model, el) {
    super(model, el, "Run");
    this.follow(["html"], () => (this.root.innerHTML = model.get("html")));
  }
}

/** Fill an element with one child for each item, unless they are as before; whether it was filled. */
function fill(place, items, make) {
  const now = JSON.stringify(items);
  if (place.dataset.items === now) return false;
  place.dataset.items = now;
  place.replaceChildren(...items.map(make));
  return true;
}

function box({ name, about }) {
  const label = document.createElement("label");
  label.className = "agentnb-panel-tool";
  label.title = about;
  const tick = document.createElement("input");
  tick.type = "checkbox";
  tick.value = name;
  label.append(tick, name);
  return label;
}

const FORM = `
  <div class="agentnb-panel-field"><label for="ID-prompt">Prompt</label>
    <textarea id="ID-prompt" rows="4" placeholder="What should the agent do?"></textarea></div>
  <div class="agentnb-panel-fields">
    <div class="agentnb-panel-field agentnb-panel-model"><label for="ID-model">Model</label>
      <input id="ID-model" list="ID-models" autocomplete="off" spellcheck="false"><datalist id="ID-models"></datalist></div>
    <div class="agentnb-panel-field"><label for="ID-guidance">Guidance</label><select id="ID-guidance"></select></div>
  </div>
  <fieldset class="agentnb-panel-field"><legend>Tools</legend>
    <div class="agentnb-panel-tools" data-tools></div></fieldset>
  <div class="agentnb-panel-start">
    <button type="button" class="agentnb-button agentnb-primary" data-start aria-keyshortcuts="Control+Enter">Start</button>
    <span class="agentnb-panel-quiet">Ctrl+Enter</span>
    <span class="agentnb-panel-error" role="alert"></span>
    <span class="agentnb-panel-quiet agentnb-panel-note" role="status"></span>
  </div>`;

const LIST = `
  <div class="agentnb-panel-head"><span class="agentnb-panel-title">Runs</span>
    <button type="button" class="agentnb-button agentnb-quiet" data-refresh>Refresh</button></div>
  <div class="agentnb-panel-error" role="alert"></div>
  <div class="agentnb-panel-quiet" data-note></div>
  <div class="agentnb-panel-runs" data-list></div>`;

const PAGE = crypto.randomUUID?.() ?? String(Math.random());
let forms = 0;
const PARTS = { form: Form, list: List, page: Page };

export default {
  render({ model, el }) {
    const part = new PARTS[model.get("part")](model, el);
    return () => part.close();
  },
};
