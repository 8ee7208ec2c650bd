// What stays of a run whose kernel has gone: the frame that the kernel made for it (display/card/lost_kernel.py), filled with what the page
// last knew, as the notebook can save it. INLINE holds the style of each class; card/widget.py puts it before this file.

const PICTURES = 4_000_000; // characters of all pictures; beyond that, only the last ones stay
const ACTIVE = ".agentnb-active, .agentnb-asking";

/** The remains of the run of this story, as a cell's output. */
function remains(story, now) {
  const root = document.createElement("div");
  root.className = "mathjax_ignore tex2jax_ignore";
  root.innerHTML = story.model.get("remains");
  for (const place of root.querySelectorAll("[data-slot]")) {
    const html = story.slots[place.dataset.slot];
    if (!html) place.remove();
    else if (place.className) place.innerHTML = html;
    else place.outerHTML = html;
  }
  const list = root.querySelector("[data-rounds]");
  for (const [index, { keys, html }] of [...story.rounds].sort((one, other) => one[0] - other[0])) {
    list.insertAdjacentHTML("beforeend", '<div class="agentnb-round"><div class="agentnb-number"></div><div class="agentnb-pieces"></div></div>');
    const [number, pieces] = list.lastElementChild.children;
    number.textContent = keys.some((key) => key.startsWith("step:")) ? "" : index + 1;
    pieces.innerHTML = keys.map((key) => html[key]).join("");
  }
  if (story.streaming !== null) list.querySelector(".agentnb-round:last-child .agentnb-pieces")?.append(unfinished(story.stream));
  atRest(root, story.folds, now);
  inline(root);
  const text = [...root.querySelectorAll(".agentnb-chip, .agentnb-note")].map((one) => one.textContent).join("\n");
  return { "text/html": root.outerHTML, "text/plain": text };
}

/** The words of the reply that was on its way. */
function unfinished({ settled, tail }) {
  const made = document.createElement("div");
  made.innerHTML = '<div class="agentnb-text"></div><div class="agentnb-streaming"></div>';
  made.firstElementChild.innerHTML = settled.join("");
  made.lastElementChild.textContent = tail;
  return made;
}

/** Nothing runs, counts or can be clicked any more; folds stay as the reader left them. */
function atRest(root, folds, now) {
  for (const one of root.querySelectorAll("[data-since]")) one.textContent = clock((now - one.dataset.since) / 1000);
  for (const one of root.querySelectorAll("[role=checkbox]")) one.replaceWith(`${one.textContent} `); // the mark of a todo
  for (const one of root.querySelectorAll("form, button, input, [data-until], [data-silent]")) one.remove();
  for (const one of root.querySelectorAll("[data-status=running], [data-status=waiting]")) one.dataset.status = "interrupted";
  for (const one of root.querySelectorAll(ACTIVE)) {
    if (one.matches(".agentnb-step-state")) one.textContent = "interrupted";
    if (one.matches(".agentnb-tool-state, .agentnb-chip")) one.textContent = `■ ${one.matches(".agentnb-chip") ? "Interrupted" : "interrupted"}`;
    one.classList.replace(one.matches(".agentnb-active") ? "agentnb-active" : "agentnb-asking", "agentnb-warn");
  }
  for (const one of root.querySelectorAll("details[data-ask]")) one.remove(); // what it opens to was never fetched
  for (const one of root.querySelectorAll("details[data-fold]")) one.open = folds.get(one.dataset.fold) ?? one.open;
  let room = PICTURES;
  for (const one of [...root.querySelectorAll("img")].reverse()) if ((room -= one.src.length) < 0) one.remove();
}

/** Styles stand in the elements: a saved notebook has no style sheet of ours. */
function inline(root) {
  for (const one of root.querySelectorAll("[class]:not([style])")) {
    const style = [...one.classList].map((name) => INLINE[name] ?? "").join("");
    if (style) one.setAttribute("style", style);
  }
}
