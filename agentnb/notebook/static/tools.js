// What helps to read a run: find in it, go from exception to exception, copy. It works on the HTML alone, so it serves live cards
// and, once a page has shown one, saved cards too: those have no script, and get their buttons when the reader reaches them.

const CARDS = ".agentnb-run, .agentnb-card";
const EXCEPTIONS = ".agentnb-bad-call, .agentnb-odd";
const FLASH = 1500; // milliseconds for which what was gone to is marked
const MAX_FOUND = 500;
const COPIED = 1200; // milliseconds for which a button says so

function quietButton(label, title, run) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "agentnb-button agentnb-quiet-button";
  made.textContent = label;
  made.title = title;
  made.setAttribute("aria-label", title);
  made.addEventListener("click", (event) => {
    event.preventDefault();
    event.stopPropagation();
    run(made);
  });
  return made;
}

/** Open what is folded around an element, and show it. A live card hears of it: it stops to follow, and keeps the folds open. */
function reveal(element) {
  for (let fold = element.closest("details"); fold; fold = fold.parentElement.closest("details")) {
    if (fold !== element) fold.open = true;
  }
  element.dispatchEvent(new CustomEvent("agentnb-reveal", { bubbles: true }));
  element.scrollIntoView({ block: "nearest" });
  element.classList.add("agentnb-here");
  setTimeout(() => element.classList.remove("agentnb-here"), FLASH);
}

function outermost(elements) {
  return elements.filter((one) => !one.parentElement.closest(EXCEPTIONS));
}

/** Go to the next exception, or with -1 to the one before. */
function step(card, by) {
  const all = outermost([...card.querySelectorAll(EXCEPTIONS)]);
  if (!all.length) return;
  const last = all.indexOf(card.agentnbAt);
  card.agentnbAt = all[last < 0 ? (by > 0 ? 0 : all.length - 1) : (last + by + all.length) % all.length];
  reveal(card.agentnbAt);
}

/** By the number that is to be read: a notebook that is not trusted keeps neither ids nor data attributes. */
function toRound(card, number) {
  const all = [...card.querySelectorAll(".agentnb-round > .agentnb-number, .agentnb-round-line")].filter((one) => !one.closest(".agentnb-nested"));
  const found = all.find((one) => parseInt(one.textContent.replace("Round", ""), 10) === number);
  const round = found?.closest(".agentnb-round, .agentnb-round-line");
  if (round) reveal(round);
  return Boolean(round);
}

function toFinding(card, number) {
  const found = [...(card?.querySelectorAll(".agentnb-finding") ?? [])].find((one) => parseInt(one.textContent.replace(/^\D+/, ""), 10) === number);
  const shown = found ?? card?.querySelector(".agentnb-findings-live"); // a live card lists the newest
  if (shown) reveal(shown);
  return Boolean(shown);
}

async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  setTimeout(() => (button.textContent = before), COPIED);
}

function textOf(element) {
  return (element?.innerText ?? "").trim();
}

/** Find words in a card: the matches are marked without touching its elements, and Enter goes to the next. */
class Finder {
  constructor(card, field, count) {
    this.card = card;
    this.field = field;
    this.count = count;
    field.addEventListener("input", () => this.find());
    field.addEventListener("keydown", (event) => {
      event.stopPropagation(); // the notebook has keys of its own
      if (event.key === "Enter") {
        event.preventDefault();
        this.go(event.shiftKey ? -1 : 1);
      } else if (event.key === "Escape") {
        field.value = "";
        this.find();
      }
    });
  }

  find() {
    const wanted = this.field.value.trim().toLowerCase();
    this.found = [];
    this.at = -1;
    if (wanted) {
      const walker = document.createTreeWalker(this.card, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node && this.found.length < MAX_FOUND; node = walker.nextNode()) {
        if (node.parentElement.closest(".agentnb-unseen, .agentnb-tools")) continue;
        const text = node.data.toLowerCase();
        for (let place = text.indexOf(wanted); place >= 0; place = text.indexOf(wanted, place + wanted.length)) {
          this.found.push({ node, place });
        }
      }
    }
    this.mark(wanted.length);
    this.tell(wanted);
  }

  mark(length) {
    if (!globalThis.CSS?.highlights) return;
    const ranges = this.found.map(({ node, place }) => new StaticRange({ startContainer: node, startOffset: place, endContainer: node, endOffset: place + length }));
    CSS.highlights.set("agentnb-found", new Highlight(...ranges));
  }

  tell(wanted) {
    const many = this.found.length >= MAX_FOUND ? `${MAX_FOUND}+` : this.found.length;
    this.count.textContent = !wanted ? "" : this.at < 0 ? `${many} found` : `${this.at + 1} of ${many}`;
  }

  go(by) {
    this.found = (this.found ?? []).filter(({ node }) => node.isConnected);
    if (!this.found.length) return;
    this.at = (this.at + by + this.found.length) % this.found.length;
    reveal(this.found[this.at].node.parentElement);
    this.tell(this.field.value);
  }
}

/** The buttons of a card, in a place of its head. */
function toolsOf(card) {
  const place = document.createElement("span");
  place.className = "agentnb-tools";
  const answer = card.querySelector(":scope > .agentnb-answer");
  const error = card.querySelector(":scope > .agentnb-why-bad");
  const id = card.querySelector(".agentnb-part:last-of-type .agentnb-value");
  if (answer ?? error) {
    const [label, from] = answer ? ["Copy answer", answer] : ["Copy error", error];
    place.append(quietButton(label, label, (button) => copy(textOf(from), button)));
  }
  if (id) place.append(quietButton("Copy id", "Copy the id of the run", (button) => copy(id.textContent, button)));
  const field = document.createElement("input");
  field.className = "agentnb-field agentnb-find";
  field.placeholder = "Find";
  field.setAttribute("aria-label", "Find in this run");
  const count = document.createElement("span");
  count.className = "agentnb-hint";
  new Finder(card, field, count);
  const back = quietButton("↑", "Previous failure or warning", () => step(card, -1));
  const on = quietButton("↓", "Next failure or warning", () => step(card, 1));
  for (const one of [back, on]) one.dataset.step = "";
  place.append(back, on, count, field);
  return place;
}

/** One button for all code and results, over whichever the pointer is on. */
function copyButton() {
  let from = null;
  const button = quietButton("Copy", "Copy this", () => copy(from?.innerText ?? "", button));
  button.classList.add("agentnb-copy");
  button.hidden = true;
  return {
    over(element) {
      if (element === button) return;
      from = element?.closest?.("pre, .agentnb-data") ?? null;
      const card = from?.closest(".agentnb-run, .agentnb-card");
      if (!card) {
        button.hidden = true;
        return;
      }
      if (!button.isConnected) document.body.append(button);
      const { top, right } = from.getBoundingClientRect();
      button.hidden = false;
      button.style.cssText = `position: fixed; z-index: 100; top: ${Math.max(0, top)}px; left: ${Math.min(right, innerWidth) - 54}px`;
    },
  };
}

/** Once for a page: saved cards get their buttons when the pointer or the focus comes to them. */
function helpReaders() {
  if (document.documentElement.dataset.agentnbTools) return;
  document.documentElement.dataset.agentnbTools = "on";
  const copies = copyButton();
  const reached = (event) => {
    copies.over(event.target);
    const card = event.target.closest?.(".agentnb-run");
    const head = card?.firstElementChild;
    if (head?.classList.contains("agentnb-head") && !head.querySelector(".agentnb-tools")) {
      const tools = toolsOf(card);
      if (!card.querySelector(EXCEPTIONS)) tools.querySelectorAll("[data-step]").forEach((one) => one.remove());
      head.append(tools);
    }
  };
  document.addEventListener("pointerover", reached);
  document.addEventListener("focusin", reached);
  document.addEventListener("scroll", () => copies.over(null), { capture: true, passive: true });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.(".agentnb-to-round");
    const card = link?.closest(CARDS);
    if (card && toRound(card, Number(decodeURIComponent(link.hash).split("-").pop()))) event.preventDefault(); // as a link it would change the address of the page
    const beside = link?.closest(".agentnb-diff")?.querySelector(`[id="${CSS.escape(decodeURIComponent(link.hash.slice(1)))}"]`);
    if (beside) {
      reveal(beside);
      event.preventDefault();
    }
    const back = event.target.closest?.(".agentnb-to-finding");
    if (back && toFinding(back.closest(CARDS), parseInt(back.textContent.replace(/\D+/, ""), 10))) event.preventDefault();
  });
}
