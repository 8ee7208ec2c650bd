// Runs to judge by hand: one at a time, by keys or buttons. All HTML comes from the kernel, where it is made harmless; each wish names
// the run it is meant for, so that a key pressed twice does not judge the next run unseen.

function render({ model, el }) {
  const root = document.createElement("section");
  root.className = "agentnb-label";
  root.tabIndex = 0;
  root.setAttribute("aria-label", "Judge runs");
  root.dataset.lmSuppressShortcuts = "true"; // the notebook has keys of its own: x would cut the cell
  root.innerHTML = `
    <div class="agentnb-label-bar"><b role="status" data-told></b><span data-words></span>
      <button class="agentnb-button" data-do="previous" aria-keyshortcuts="p">Previous (p)</button>
      <button class="agentnb-button" data-do="next" aria-keyshortcuts="n">Next (n)</button>
      <button class="agentnb-button" data-do="undo" aria-keyshortcuts="u">Undo (u)</button>
      <span class="agentnb-label-quiet">Click here, then judge by keys.</span></div>
    <div class="agentnb-label-error" role="alert"></div>
    <div class="agentnb-label-run" data-run></div>`;
  const find = (selector) => root.querySelector(selector);
  const say = (message) => model.send({ ...message, place: model.get("place") });
  const heard = [];
  const follow = (traits, show) => {
    for (const trait of traits) {
      model.on(`change:${trait}`, show);
      heard.push(() => model.off(`change:${trait}`, show));
    }
    show();
  };
  follow(["words", "chosen"], () => {
    find("[data-words]").replaceChildren(
      ...model.get("words").map((word, index) => {
        const button = document.createElement("button");
        button.className = "agentnb-button";
        button.dataset.number = String(index + 1);
        button.textContent = `${index + 1} ${word}`;
        button.setAttribute("aria-pressed", String(model.get("chosen") === index + 1));
        button.setAttribute("aria-keyshortcuts", String(index + 1));
        return button;
      }),
    );
  });
  follow(["told"], () => (find("[data-told]").textContent = model.get("told")));
  follow(["error"], () => (find("[role=alert]").textContent = model.get("error")));
  follow(["html", "place"], () => {
    find("[data-run]").innerHTML = model.get("html");
    find("[data-run]").scrollTop = 0;
  });
  root.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button || !find(".agentnb-label-bar").contains(button)) return;
    say(button.dataset.number ? { do: "judge", number: Number(button.dataset.number) } : { do: button.dataset.do });
    root.focus(); // the button may be made anew
  });
  root.addEventListener("keydown", (event) => {
    event.stopPropagation(); // as above, for frontends that listen further up
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    const wish = { n: "next", p: "previous", u: "undo" }[event.key];
    if (wish) say({ do: wish });
    else if (/^[1-9]$/.test(event.key) && Number(event.key) <= model.get("words").length) say({ do: "judge", number: Number(event.key) });
    else return;
    event.preventDefault();
  });
  el.append(root);
  const outputs = new NotebookOutputs(model, model.get("key"));
  heard.push(outputs.onGone(() => setTimeout(() => outputs.keep(saved(model)))));
  return () => heard.forEach((forget) => forget());
}

/** What the notebook holds when the kernel has gone, with which nothing could be judged any more. */
function saved(model) {
  const place = document.createElement("div");
  place.innerHTML = model.get("remains");
  return { "text/html": place.innerHTML, "text/plain": place.textContent };
}

export default { render };
