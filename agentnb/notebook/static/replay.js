// The cards of runs that failed: in the place of the command that replays one there is a button, for as long as the kernel has the run.
// What the kernel says is text. card/replay_button.py joins this file and document.js to the one module that the browser gets.

const OFFERS = "agentnb-replay-offer";
const BUSY = "The kernel is busy and will replay the run as soon as it responds.";

class Replays {
  constructor(model) {
    this.model = model;
    this.offers = document.getElementsByClassName(OFFERS);
    this.told = new Map(); // what came of each run, by its id: a notebook draws its outputs anew when it likes
    this.timers = new Map();
    model.on("msg:custom", (message) => this.hear(message));
    model.on("change:runs", () => this.look());
    this.forget = new NotebookOutputs(model, "").onGone(() => this.end());
    this.observer = new MutationObserver(() => this.look());
    this.observer.observe(document.body, { childList: true, subtree: true });
    this.look();
  }

  look() {
    const runs = new Set(this.model.get("runs"));
    for (const offer of this.offers) {
      const run = offer.dataset.replay;
      const has = offer.querySelector("[data-replayed]");
      if (runs.has(run) && !has) this.draw(offer, run);
      else if (has && !runs.has(run)) this.undo(offer);
    }
  }

  draw(offer, run) {
    const place = document.createElement("span");
    place.dataset.replayed = "";
    place.tabIndex = -1;
    place.innerHTML = '<button type="button" class="agentnb-button"></button><span role="status"></span>';
    place.firstElementChild.title = "Show what the guidance and the policy matrix would have done in this run. No model is called";
    place.firstElementChild.addEventListener("click", () => this.ask(run));
    offer.firstElementChild.hidden = true;
    offer.append(place);
    this.tell(place, run, offer.firstElementChild);
  }

  /** Show the button, or what came of it with the command that shows all rounds. */
  tell(place, run, command) {
    const { told, error, waits } = this.told.get(run) ?? {};
    const [button, words] = place.children;
    button.textContent = waits ? "Replaying…" : "Show what guidance would have changed";
    button.setAttribute("aria-disabled", String(Boolean(waits)));
    if (told && document.activeElement === button) place.focus({ preventScroll: true });
    button.hidden = Boolean(told);
    if (told) words.replaceChildren(`With the guidance matrix: ${told} Round by round: `, command.querySelector("code")?.cloneNode(true) ?? "");
    else words.textContent = error ?? "";
  }

  ask(run) {
    if (this.told.get(run)?.waits) return;
    this.keep(run, { waits: true });
    this.timers.set(run, setTimeout(() => this.keep(run, { waits: true, error: BUSY }), PATIENCE));
    try {
      this.model.send({ do: "replay", run });
    } catch {
      this.end(); // the kernel was restarted, or has died
    }
  }

  hear({ run, told, error }) {
    clearTimeout(this.timers.get(run));
    this.keep(run, { told, error });
  }

  keep(run, told) {
    this.told.set(run, told);
    for (const offer of this.offers) {
      const place = offer.dataset.replay === run && offer.querySelector("[data-replayed]");
      if (place) this.tell(place, run, offer.firstElementChild);
    }
  }

  undo(offer) {
    offer.querySelector("[data-replayed]").remove();
    offer.firstElementChild.hidden = false;
  }

  /** The kernel has gone: the commands are shown again. What was said stays until the page draws the card anew. */
  end() {
    this.observer.disconnect();
    this.forget();
    this.timers.forEach(clearTimeout);
    for (const offer of this.offers) {
      const place = offer.querySelector("[data-replayed]");
      if (place && !this.told.get(offer.dataset.replay)?.told) this.undo(offer);
    }
  }
}

export default {
  initialize({ model }) {
    const replays = new Replays(model);
    return () => replays.end();
  },
  render({ el }) {
    el.textContent = "";
  },
};
