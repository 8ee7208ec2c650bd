// The live card of a run in one place of a page. All HTML comes from the kernel, where it is made harmless; words of a model that
// are still streaming are set as text. Nothing is decided here.
// There is no build step: card/widget.py joins this file and others to the one module that the browser gets.

const RECENT = 1000; // milliseconds within which a scroll is the reader's
const NOTED = 5000; // milliseconds for which a note stands
const SILENT = 30; // seconds without a word after which a card counts them
const NEAR = 32; // pixels from the end within which a reader counts as following

/** One place where a run is shown. */
class View {
  constructor(story, el) {
    this.story = story;
    this.root = document.createElement("div");
    this.root.className = "agentnb-card";
    this.root.agentnbView = this;
    this.root.setAttribute("role", "region");
    this.root.setAttribute("aria-label", "Agent run");
    this.root.dataset.lmSuppressShortcuts = "true"; // the notebook has keys of its own: x would cut the cell
    this.root.innerHTML = SKELETON;
    this.find("[data-tools]").append(toolsOf(this.root), this.detailsButton());
    el.append(this.root);
    helpReaders();
    this.following = true;
    this.list = this.find("[data-rounds]");
    this.listen();
    this.timer = setInterval(() => this.tick(), 250);
    if (story.seq >= 0) this.all();
    if (story.ended) this.end(story.ended);
    story.open(this);
  }

  close() {
    clearInterval(this.timer);
    this.story.close(this);
    this.root.remove();
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  listen() {
    this.root.addEventListener("click", (event) => this.click(event));
    this.root.addEventListener("submit", (event) => this.submit(event));
    this.root.addEventListener("keydown", (event) => this.key(event));
    new TodoDrag(this.root, (message) => this.story.ask(message, this));
    for (const kind of ["wheel", "touchmove", "pointerdown", "keydown"]) {
      this.list.addEventListener(kind, () => (this.touched = Date.now()), { passive: true });
    }
    this.list.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.root.addEventListener("input", (event) => typedInto(event.target));
    this.root.addEventListener("invalid", (event) => this.invalid(event), true);
    this.root.addEventListener("toggle", ({ target }) => openerOf(target)?.setAttribute("aria-expanded", String(target.open)), true);
    this.root.addEventListener("load", () => this.follow(), true); // pictures
    // A round that was out of sight has its own height only when it comes into sight, and nothing else tells of that.
    this.list.addEventListener("contentvisibilityautostatechange", () => this.follow(), true);
    new ResizeObserver(() => this.follow()).observe(this.list); // another width, as beside the file list, breaks lines elsewhere
    this.root.addEventListener("agentnb-reveal", (event) => this.revealed(event.target));
  }

  /** The switch of what is seldom looked for. The kernel remembers it for the next cards. */
  detailsButton() {
    const button = quietButton("Details", "Show guidance, requests and the model", () => {
      this.story.detailed = !this.story.detailed;
      this.story.say({ do: "details", open: this.story.detailed });
      this.story.views.forEach((view) => view.detail());
    });
    button.dataset.details = "";
    return button;
  }

  detail() {
    this.root.classList.toggle("agentnb-detailed", Boolean(this.story.detailed));
    this.find("[data-details]")?.setAttribute("aria-pressed", String(Boolean(this.story.detailed)));
    this.follow();
  }

  // What is shown

  all() {
    for (const [name, html] of Object.entries(this.story.slots)) this.slot(name, html);
    const wanted = new Set([...this.story.rounds.keys()].map(String));
    for (const old of [...this.list.querySelectorAll("[data-round]")]) if (!wanted.has(old.dataset.round)) old.remove();
    for (const index of this.story.rounds.keys()) this.round(index);
    this.keeping(this.list, () => {
      this.find("[data-stream]")?.remove();
      this.streamed();
    });
    this.detail();
    this.told(this.story.state);
  }

  patch(frame) {
    for (const [name, html] of Object.entries(frame.slots)) this.slot(name, html);
    for (const { index, html } of frame.rounds) this.round(index, html);
    this.streamed(frame.stream);
    this.told(frame.say);
  }

  /** After each change: states that have no element of their own, the end of the list, and what a screen reader should hear. */
  told(say) {
    this.root.classList.toggle("agentnb-has-todos", Boolean(this.story.slots.todos));
    this.root.classList.toggle("agentnb-going", this.story.going);
    this.root.classList.toggle("agentnb-has-trouble", Boolean(this.story.slots.trouble || this.story.slots.findings));
    this.tick();
    this.follow();
    this.newest();
    if (say) this.announce(say);
  }

  /** For screen readers: the state when it changes, and what is asked. The end is told from outside, for the card is replaced then. */
  announce(say) {
    const asked = this.story.slots.chip?.includes("agentnb-asking") && this.list.querySelector(".agentnb-question-text");
    set(this.story.going ? this.find("[role=status]") : outside(), asked ? `${say}: ${asked.textContent}` : say);
  }

  /** Change what stands in a place, and leave the focus with what has the same name then, or near. */
  keeping(place, change) {
    const focused = place.contains(document.activeElement) ? document.activeElement : null;
    const name = focused && nameOf(focused);
    const caret = focused && caretOf(focused);
    change();
    if (!focused || this.root.contains(document.activeElement)) return;
    const after = [...place.querySelectorAll(FOCUSABLE)];
    const same = after.find((one) => nameOf(one) === name);
    (same ?? after[0] ?? this.list).focus({ preventScroll: true });
    if (same && caret) same.setSelectionRange(...caret);
  }

  slot(name, html) {
    const place = this.find(`[data-slot=${name}]`);
    this.keeping(place, () => (place.innerHTML = html));
  }

  /** Show a round; `changed` holds the pieces that are new or other than before (without it all are). */
  round(index, changed) {
    const { keys, html } = this.story.rounds.get(index);
    const pieces = this.frameOf(index).lastElementChild;
    const wanted = new Set(keys);
    for (const old of [...pieces.children]) if (!wanted.has(old.dataset.piece) && !old.dataset.stream) this.takeOut(old);
    let place = null;
    for (const key of keys) {
      let piece = [...pieces.children].find((one) => one.dataset.piece === key);
      const isNew = !piece;
      if (isNew) {
        piece = document.createElement("div");
        piece.dataset.piece = key;
      }
      const after = place ? place.nextElementSibling : pieces.firstElementChild;
      if (after !== piece) pieces.insertBefore(piece, after);
      if (isNew || !changed || key in changed) this.put(piece, html[key]);
      place = piece;
    }
  }

  /** Take something out of the list; the focus goes to what has the same name, as the fold of a thought that is whole now. */
  takeOut(old) {
    const name = old.contains(document.activeElement) && nameOf(document.activeElement);
    old.remove();
    if (name === false) return;
    const same = [...this.list.querySelectorAll(FOCUSABLE)].find((one) => nameOf(one) === name);
    (same ?? this.list).focus({ preventScroll: true });
  }

  frameOf(index) {
    let found = this.find(`[data-round="${index}"].agentnb-round`);
    if (found) return found;
    found = document.createElement("div");
    found.className = "agentnb-round";
    found.dataset.round = index;
    found.innerHTML = '<div class="agentnb-number"></div><div class="agentnb-pieces"></div>';
    found.firstElementChild.textContent = index + 1;
    const later = [...this.list.children].find((one) => Number(one.dataset.round) > index);
    this.list.insertBefore(found, later ?? this.find("[data-end]"));
    return found;
  }

  /** New HTML for a piece, with folds as the reader left them. */
  put(piece, html) {
    if (piece.shown === html) return;
    piece.shown = html;
    this.keeping(piece, () => this.set(piece, html));
  }

  set(piece, html) {
    const typed = typedIn(piece);
    piece.innerHTML = html;
    this.unfold(piece);
    for (const place of piece.querySelectorAll("[data-fill]")) this.filled(place);
    typeAgain(piece, typed);
  }

  /** Folds as the reader left them. */
  unfold(place) {
    for (const fold of place.querySelectorAll("[data-fold]")) {
      const open = this.story.folds.get(fold.dataset.fold);
      if (open !== undefined) fold.open = open;
    }
  }

  fill(key) {
    for (const place of this.root.querySelectorAll(`[data-fill="${CSS.escape(key)}"]`)) this.filled(place);
  }

  filled(place) {
    const html = this.story.fills.get(place.dataset.fill);
    if (html === undefined || place.shown === html) return;
    place.shown = html;
    const typed = typedIn(place);
    this.keeping(place, () => (place.innerHTML = html));
    typeAgain(place, typed);
    const fold = place.parentElement;
    if (document.activeElement && document.activeElement === openerOf(fold)) this.enter(fold);
  }

  /** The words of the reply that is on its way: settled paragraphs as HTML, the rest as text. */
  streamed(more) {
    let place = this.find("[data-stream]");
    if (place && place.dataset.stream !== String(this.story.streaming)) {
      this.takeOut(place);
      place = null;
    }
    if (this.story.streaming === null) return;
    const { settled, tail, kind, thought } = this.story.stream;
    if (!place) {
      place = document.createElement("div");
      place.dataset.stream = this.story.streaming;
      place.innerHTML = STREAM;
      const last = Math.max(...this.story.rounds.keys());
      if (Number.isFinite(last)) this.frameOf(last).lastElementChild.append(place);
      place.firstElementChild.dataset.fold = `thinking:${last}`; // as it will be called when it is whole
      this.unfold(place);
      more = { add: settled, more_thought: thought, tail };
    }
    const [thinking, text, end] = place.children;
    if (more?.more_thought) thinking.lastElementChild.append(more.more_thought);
    thinking.hidden = !thought;
    for (const html of more?.add ?? []) text.insertAdjacentHTML("beforeend", html);
    end.className = kind === "code" ? "agentnb-streaming agentnb-streaming-code" : "agentnb-streaming";
    if (more?.more !== undefined && more.tail === undefined) end.append(more.more);
    else if (end.textContent !== tail) end.textContent = tail;
  }

  tick() {
    const now = Date.now() + this.story.clock;
    for (const one of this.root.querySelectorAll("[data-since]")) set(one, clock((now - one.dataset.since) / 1000));
    for (const one of this.root.querySelectorAll("[data-until]")) {
      const left = Math.ceil((one.dataset.until - now) / 1000);
      set(one, left > 0 ? ` in ${left} s` : "");
    }
    const silent = Math.floor((now - this.story.changedAt) / 1000);
    for (const one of this.root.querySelectorAll("[data-silent]"))
      set(one, silent >= SILENT ? `: no output for ${silent} s; it may be retrying` : "");
  }

  hint(text, isNote = false) {
    const place = this.find("[data-hint]");
    if (!place) return;
    set(place, text);
    place.classList.toggle("agentnb-hint-note", isNote);
    clearTimeout(this.hinting);
    if (isNote && text) this.hinting = setTimeout(() => set(place, ""), NOTED);
  }

  /** What was clicked can be clicked again. */
  free(button) {
    button?.removeAttribute("aria-disabled");
    button?.removeAttribute("aria-busy");
  }

  /** Show only this from now on: the run is over, or its kernel died. */
  end(html, say) {
    clearInterval(this.timer);
    if (say) set(outside(), say);
    this.root.innerHTML = html;
    this.root.className = "";
  }

  // Following

  /** What the reader went to stays in sight, and what was opened for it stays open here. */
  revealed(element) {
    this.touched = Date.now();
    this.following = false;
    for (let fold = element.closest("[data-fold]"); fold; fold = fold.parentElement.closest("[data-fold]")) {
      if (fold.open) this.story.folds.set(fold.dataset.fold, true);
    }
  }

  /** The scroll position of a followed list: its end, or the beginning of a question too long for the list. */
  get bottom() {
    const last = this.list.scrollHeight - this.list.clientHeight;
    const question = this.list.querySelector(".agentnb-question");
    if (!question) return last;
    return Math.min(last, this.list.scrollTop + question.getBoundingClientRect().top - this.list.getBoundingClientRect().top);
  }

  /** Go down to the end, never up: a reader of a long question is further down. */
  follow() {
    if (this.following) this.list.scrollTop = Math.max(this.list.scrollTop, this.bottom);
  }

  /** A reader who scrolls up is not pulled down again; a list that only grew is followed. */
  scrolled() {
    if (this.list.scrollTop >= this.bottom - NEAR) this.following = true;
    else if (Date.now() - (this.touched ?? 0) < RECENT) this.following = false;
    else this.follow();
    this.newest();
  }

  newest() {
    this.find("[data-newest]").hidden = this.following;
  }

  // What the person does

  click(event) {
    const summary = event.target.closest("summary");
    if (summary) return this.folded(summary.parentElement, !summary.parentElement.open);
    const opener = event.target.closest("[data-opens]");
    if (opener) return this.opens(opener);
    const button = event.target.closest("[data-do]");
    if (!button || button.tagName === "FORM" || button.ariaDisabled === "true") return;
    if (button.hasAttribute("data-newest")) {
      this.following = true;
      this.list.scrollTop = this.bottom;
      return this.newest();
    }
    const unsaved = button.dataset.do === "choose" && unsavedIn(button.closest(".agentnb-question"));
    if (unsaved) return this.refused(unsaved, "Save this step first, or reset it.");
    const make = ACTIONS[button.dataset.do];
    const message = make ? make(button) : { do: button.dataset.do, key: button.dataset.id };
    if (!message) return;
    if (button.dataset.do === "stop") button.textContent = "Stopping…";
    if (button.dataset.do !== "tick") button.setAttribute("aria-disabled", "true"); // not disabled, which takes the focus away
    this.story.ask(message, this, button);
  }

  /** Open what a button of a question opens, and close what another one has opened; or close it. */
  opens({ dataset: { opens: key } }) {
    const fold = this.find(`[data-fold="${CSS.escape(key)}"]`);
    const isOpen = fold.open;
    for (const other of this.root.querySelectorAll(".agentnb-panel[open]")) this.shut(other.dataset.fold);
    if (isOpen) return;
    this.folded(fold, true);
    fold.open = true;
    this.enter(fold);
  }

  /** Put what was opened into sight, and the focus on its first field. */
  enter(fold) {
    fold.scrollIntoView({ block: "nearest" });
    fold.querySelector("select, input, textarea")?.focus({ preventScroll: true });
  }

  folded(fold, open) {
    const { fold: key, ask, round } = fold.dataset;
    if (!key) return;
    this.story.folds.set(key, open);
    if (!fold.matches(".agentnb-panel")) this.story.say({ do: "fold", key, open }); // a saved card has no panels
    const place = fold.querySelector("[data-fill]");
    if (open && ask && place) {
      if (!this.story.fills.has(place.dataset.fill)) place.textContent = "…";
      else this.filled(place);
      this.story.ask({ do: ask, round: Number(round), key: place.dataset.fill }, this);
    }
  }

  submit(event) {
    event.preventDefault();
    const form = event.target;
    if (form.ariaBusy === "true") return; // it was sent, and waits to be heard
    const message = messageOf(form);
    if (!message) return form.elements.text.focus(); // nothing was typed
    this.refused(form, "");
    form.ariaBusy = "true";
    this.story.ask({ ...message, key: form.dataset.id, now: event.submitter?.value === "now" }, this, form);
  }

  /** What the browser itself refuses, as letters in a field for numbers, is said at the field too. */
  invalid(event) {
    if (this.refused(event.target.form, event.target.validationMessage)) event.preventDefault();
  }

  /** The kernel has taken what was sent, or has refused it: then it stays in its field, with the reason. */
  settled(sent, error, note, fields) {
    this.free(sent);
    const form = sent?.tagName === "FORM" ? sent : null;
    if (form?.elements.text && !error) form.elements.text.value = "";
    if (form?.dataset.do === "step" && !error) this.shut(form.closest("[data-fold]").dataset.fold);
    const there = form ? this.refused(form, error, fields) : sayAtStep(sent, error);
    this.hint((!there && error) || note || "", !error);
  }

  /** Close a fold, also where it was drawn again meanwhile. */
  shut(key) {
    this.story.folds.set(key, false);
    this.story.say({ do: "fold", key, open: false });
    for (const fold of this.root.querySelectorAll(`[data-fold="${CSS.escape(key)}"]`)) fold.open = false;
  }

  /** Say at its field why an answer was refused, and whether there is a place to say it. */
  refused(form, error, fields) {
    return form.isConnected && sayRefused(form, error, fields);
  }

  key(event) {
    const item = event.target.closest("[data-todo]");
    if (item && event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
      event.preventDefault();
      const message = moved(item, event.key === "ArrowUp" ? "up" : "down");
      if (message) this.story.ask(message, this);
    }
    questionKey(event);
    event.stopPropagation(); // as above, for frontends that listen further up
  }
}

/** Messages of buttons that say more than their name and number. */
const ACTIONS = {
  all(button) {
    button.closest(".agentnb-tool-body").dataset.fill = `all:${button.dataset.call}`;
    return { do: "all", call: button.dataset.call, key: `all:${button.dataset.call}` };
  },
  draft: (button) => ({ do: "draft", key: button.dataset.id, op: button.dataset.op, place: Number(button.dataset.place) }),
  choose: (button) => ({ do: "choose", key: button.dataset.id, value: button.dataset.value }),
  up: (button) => moved(button.closest("[data-todo]"), "up"),
  down: (button) => moved(button.closest("[data-todo]"), "down"),
};

function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const pad = (number) => String(number).padStart(2, "0");
  return `${pad(Math.floor(whole / 60))}:${pad(whole % 60)}`;
}

/** What tells a control from the others of its place, also after it was made anew. */
function nameOf(element) {
  const { key, fold } = element.dataset;
  return key ?? fold ?? element.parentElement.dataset.fold ?? element.className + element.dataset.value;
}

/** Where screen readers hear of what comes when a card is replaced. */
function outside() {
  const found = document.querySelector("body > .agentnb-unseen[role=status]");
  if (found) return found;
  const made = document.createElement("div");
  made.className = "agentnb-unseen";
  made.setAttribute("role", "status");
  made.style.cssText = "position: fixed; width: 1px; height: 1px; overflow: hidden; opacity: 0";
  document.body.append(made);
  return made;
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const FOCUSABLE = "button, input, select, textarea, summary, a[href], [tabindex]";

const stories = new Map(); // by the key of their widget: each hook is handed another object for the same model

export default {
  initialize({ model }) {
    const key = model.get("key");
    stories.set(key, new Story(model));
    return () => {
      stories.get(key)?.forget();
      stories.delete(key);
    };
  },
  render({ model, el }) {
    const view = new View(stories.get(model.get("key")), el);
    return () => view.close();
  },
};
