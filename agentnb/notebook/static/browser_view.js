// One place of a page that shows a trace browser: the list with its field and filters, and the opened run with its buttons.

const TYPING = 200; // milliseconds after the last key, until what is typed is looked for
const FILTERS = { status: "Any state", outcome: "Any outcome", finding: "Any finding", format: "Any format", tool: "Any tool" };
const IN_A_FIELD = "input, select, textarea";
const FRAME = `
  <div class="agentnb-browser-bar">
    <input class="agentnb-field agentnb-browser-find" type="search" placeholder="Find in all runs" aria-label="Find in all runs" autocomplete="off" spellcheck="false">
    ${Object.entries(FILTERS).map(([name, any]) => `<select class="agentnb-field" data-filter="${name}" aria-label="${any}"></select>`).join("")}
    <button type="button" class="agentnb-button agentnb-quiet-button" data-clear hidden>Clear</button>
    <span class="agentnb-browser-told" role="status" data-told></span>
    <span class="agentnb-browser-error" role="alert"></span>
  </div>
  <div class="agentnb-browser-body">
    <div class="agentnb-browser-list" data-list></div>
    <div class="agentnb-browser-side">
      <div class="agentnb-browser-steps">
        <button type="button" class="agentnb-button agentnb-quiet-button" data-round="-1" title="Previous round (p)" aria-label="Previous round">‹</button>
        <span data-at></span>
        <button type="button" class="agentnb-button agentnb-quiet-button" data-round="1" title="Next round (n)" aria-label="Next round">›</button>
        <code data-variable></code>
        <span data-tools></span>
      </div>
      <div class="agentnb-browser-run" data-run tabindex="0" role="group" aria-label="Run"></div>
    </div>
  </div>`;
const ROUNDS = ".agentnb-rounds > .agentnb-round, .agentnb-rounds > .agentnb-round-line";

class View {
  constructor(story, host) {
    this.story = story;
    this.host = host;
    this.root = document.createElement("section");
    this.root.className = "agentnb-browser-live";
    this.root.setAttribute("aria-label", "Trace browser");
    this.root.dataset.lmSuppressShortcuts = "true"; // the notebook has keys of its own: x would cut the cell
    this.root.innerHTML = FRAME;
    this.list = this.find("[data-list]");
    this.pane = this.find("[data-run]");
    this.listen();
    helpReaders();
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  listen() {
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.root.addEventListener("click", (event) => this.click(event));
    this.find(".agentnb-browser-find").addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.look(0), TYPING);
    });
    for (const one of this.root.querySelectorAll("select")) one.addEventListener("change", () => this.look(0));
    this.pane.addEventListener("agentnb-reveal", (event) => this.reached(event.target));
    for (const kind of ["wheel", "touchmove", "pointerdown"]) {
      this.pane.addEventListener(kind, () => (this.scrolled = true), { passive: true });
    }
  }

  close() {
    clearTimeout(this.typing);
    this.root.remove();
    this.host.classList.remove("agentnb-browser-replaced");
    delete this.host.agentnbBrowser;
  }

  /** Show everything, from now on in the place of the saved form. */
  all() {
    this.listed();
    this.opened();
    if (this.root.isConnected) return;
    const output = this.host.matches(".jp-OutputArea-output");
    if (output) this.root.classList.add("jp-OutputArea-output"); // takes the place of the other among the columns
    this.host.classList.add("agentnb-browser-replaced");
    this.host.after(this.root);
  }

  tell(error) {
    this.find("[role=alert]").textContent = error;
  }

  // The list

  wanted() {
    const chosen = [...this.root.querySelectorAll("select")].map((one) => [one.dataset.filter, one.value]);
    return { find: this.find(".agentnb-browser-find").value.trim(), ...Object.fromEntries(chosen) };
  }

  look(first) {
    this.story.ask({ do: "list", wanted: this.wanted(), first });
  }

  listed() {
    const { html, told, wanted, choices, before, after, total } = this.story.list;
    this.root.classList.toggle("agentnb-browser-one", total === 1);
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.place : undefined;
    const isNew = this.list.dataset.first !== JSON.stringify([wanted, this.story.list.first]);
    this.list.innerHTML = html;
    this.list.append(this.pager(before, after));
    if (isNew) this.list.scrollTop = 0;
    this.list.dataset.first = JSON.stringify([wanted, this.story.list.first]);
    const field = this.find(".agentnb-browser-find");
    if (field !== document.activeElement) field.value = wanted.find;
    const all = !Object.values(wanted).some(Boolean);
    for (const one of this.root.querySelectorAll("select")) this.offer(one, choices[one.dataset.filter] ?? [], wanted[one.dataset.filter], all);
    this.find("[data-clear]").hidden = !Object.values(wanted).some(Boolean);
    this.find("[data-told]").textContent = told;
    this.current();
    if (this.wantsFocus || focused !== undefined) (this.row(focused) ?? this.rows()[0])?.focus();
    this.wantsFocus = false;
  }

  /** Offer these choices. A filter that divides no runs is not there; which those are is only known where ``all`` are listed. */
  offer(select, choices, chosen, all) {
    const any = FILTERS[select.dataset.filter];
    const known = choices.some(([value]) => value === chosen);
    const rest = chosen && !known ? [[chosen, chosen, 0]] : [];
    const options = [...choices, ...rest].map(([value, label, count]) => new Option(`${label} (${count.toLocaleString("en")})`, value));
    select.replaceChildren(new Option(any, ""), ...options);
    select.value = chosen;
    select.classList.toggle("agentnb-browser-chosen", Boolean(chosen));
    select.disabled = choices.length < 2 && !chosen;
    if (all) select.hidden = select.disabled;
  }

  pager(before, after) {
    const place = document.createElement("div");
    place.className = "agentnb-browser-pager";
    for (const [label, first] of [["Previous runs", before], ["Next runs", after]]) {
      if (first !== null) place.append(quietButton(label, label, () => this.turn(first)));
    }
    return place;
  }

  turn(first) {
    this.wantsFocus = true;
    this.look(first);
  }

  rows() {
    return [...this.list.querySelectorAll("[data-place]")];
  }

  row(place) {
    return this.list.querySelector(`[data-place="${place}"]`);
  }

  /** Mark the run that is open. One row at a time can be reached with Tab. */
  current() {
    const open = String(this.story.opened?.place);
    for (const one of this.rows()) {
      if (one.dataset.place === open) one.setAttribute("aria-current", "true");
      else one.removeAttribute("aria-current");
    }
    const reachable = this.row(open) ?? this.rows()[0];
    if (reachable) reachable.tabIndex = 0;
  }

  move(by) {
    const all = this.rows();
    const now = all.indexOf(document.activeElement);
    const from = now >= 0 ? now : all.indexOf(this.row(String(this.story.opened?.place)));
    const next = from + by;
    const { before, after } = this.story.list;
    if (next >= all.length && after !== null) this.turn(after);
    else if (next < 0 && before !== null) this.turn(before);
    else all[Math.min(Math.max(next, 0), all.length - 1)]?.focus();
  }

  // The opened run

  opened() {
    const { html, variable } = this.story.opened;
    this.pane.innerHTML = html;
    this.pane.scrollTop = 0;
    this.find(".agentnb-browser-steps").style.visibility = html ? "" : "hidden";
    this.card = this.pane.querySelector(".agentnb-run");
    this.at = -1;
    this.scrolled = false;
    this.find("[data-variable]").textContent = variable;
    this.find("[data-tools]").replaceChildren(...(this.card ? [this.tools()] : []));
    this.where();
    this.current();
  }

  tools() {
    const made = toolsOf(this.card);
    if (!this.card.querySelector(EXCEPTIONS)) made.querySelectorAll("[data-step]").forEach((one) => one.remove());
    const mark = document.createElement("span"); // says that this card has its buttons
    mark.className = "agentnb-tools";
    mark.hidden = true;
    this.card.querySelector(".agentnb-head")?.append(mark);
    return made;
  }

  rounds() {
    return [...this.pane.querySelectorAll(ROUNDS)];
  }

  where() {
    const all = this.rounds();
    const number = all[this.at] && parseInt(all[this.at].textContent.replace("Round", ""), 10);
    const last = this.story.opened.rounds;
    this.find("[data-at]").textContent = !all.length ? "" : number ? `Round ${number} of ${last}` : `Step through ${last} ${last === 1 ? "round" : "rounds"}`;
    for (const one of this.root.querySelectorAll("button[data-round]")) one.disabled = !all.length;
  }

  /** Go to the next round, or with -1 to the one before: from where the reader has scrolled to. */
  go(by) {
    const all = this.rounds();
    if (!all.length) return;
    for (let fold = all[0].closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    if (this.scrolled) this.at = this.topmost(all) - (by > 0 ? 1 : 0);
    this.at = Math.min(Math.max(this.at + by, 0), all.length - 1);
    this.scrolled = false;
    const round = all[this.at];
    this.pane.scrollTop += round.getBoundingClientRect().top - this.pane.getBoundingClientRect().top - 6;
    all.forEach((one) => one.classList.toggle("agentnb-here", one === round));
    setTimeout(() => round.classList.remove("agentnb-here"), FLASH);
    this.where();
  }

  /** The first round that begins in sight, or the last before. */
  topmost(all) {
    const top = this.pane.getBoundingClientRect().top;
    const found = all.findIndex((one) => one.getBoundingClientRect().top >= top - 8);
    return found < 0 ? all.length - 1 : found;
  }

  reached(element) {
    const found = this.rounds().indexOf(element.closest(ROUNDS));
    if (found < 0) return;
    this.at = found;
    this.scrolled = false;
    this.where();
  }

  // What the person does

  click(event) {
    const row = event.target.closest("[data-place]");
    const round = event.target.closest("button[data-round]");
    if (row) this.story.ask({ do: "open", place: Number(row.dataset.place) });
    else if (round) this.go(Number(round.dataset.round));
    else if (event.target.closest("[data-clear]")) this.clear();
  }

  clear() {
    this.find(".agentnb-browser-find").value = "";
    for (const one of this.root.querySelectorAll("select")) one.value = "";
    this.find(".agentnb-browser-find").focus();
    this.look(0);
  }

  key(event) {
    event.stopPropagation(); // for frontends that listen further up
    if (event.target.matches(IN_A_FIELD) || event.ctrlKey || event.metaKey || event.altKey) return;
    const known = { ArrowDown: () => this.move(1), ArrowUp: () => this.move(-1), n: () => this.go(1), p: () => this.go(-1) };
    if (!known[event.key]) return;
    event.preventDefault();
    known[event.key]();
  }
}
