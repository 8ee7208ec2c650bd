// What the live cards of one run on this page have in common: they show what the kernel sends, and send back what the person does.
// There is no build step: card/widget.py joins this file and others to the one module that the browser gets.

const PAGE = crypto.randomUUID?.() ?? String(Math.random());

/** What all views of one run show: the pieces as they were last sent, and which folds the reader has moved. */
class Story {
  constructor(model) {
    this.model = model;
    this.outputs = new NotebookOutputs(model, model.get("key"));
    this.restored = this.outputs.hold; // a page that was loaded again: no update of its outputs will ever reach it
    this.views = new Set();
    this.folds = new Map();
    this.fills = new Map();
    this.waiting = new Map();
    this.clock = 0;
    this.changedAt = Infinity; // on the clock of the kernel
    this.count = 0;
    this.greeted = () => {};
    this.reset();
    model.on("msg:custom", (message) => this.hear(message));
    model.on("comm_live_update", () => this.isShown && this.hello()); // is anybody there?
    this.forget = this.outputs.onGone(() => this.die());
    if (this.restored) this.greet(); // also where its output is out of sight, and has no view
  }

  get isShown() {
    return this.views.size > 0 || this.outputs.hold;
  }

  hello() {
    return this.say({ do: "hello", page: PAGE, restored: this.restored });
  }

  /** Ask for all there is to show until it comes. */
  greet() {
    this.greeted();
    this.greeted = repeated(() => this.hello());
  }

  open(view) {
    this.views.add(view);
    this.greet();
  }

  close(view) {
    this.views.delete(view);
    if (this.views.size || (this.restored && this.outputs.hold)) return; // only out of sight: it still has to be written
    this.gone();
  }

  /** This page shows the run no more. */
  gone() {
    this.greeted();
    this.say({ do: "gone", page: PAGE });
  }

  reset() {
    this.seq = -1;
    this.slots = {};
    this.rounds = new Map();
    this.stream = { settled: [], tail: "", kind: "text", thought: "" };
    this.streaming = null;
    this.going = true;
  }

  /** Tell the kernel something that no answer is waited for. */
  say(message) {
    if (this.dead) return false;
    try {
      this.model.send(message);
      return true;
    } catch {
      this.die(); // the kernel was restarted, or has died
      return false;
    }
  }

  /** Nobody will ever send anything again: say what to do, offer nothing, and keep what is known of the run. */
  die() {
    if (this.dead) return;
    this.dead = true;
    this.going = false;
    this.forget();
    this.greeted();
    for (const { timer } of this.waiting.values()) clearTimeout(timer);
    if (this.ended !== undefined) return;
    const kept = remains(this, Date.now() + this.clock);
    this.views.forEach((view) => view.end(kept["text/html"], "Interrupted: the kernel died"));
    this.outputs.keep(kept);
  }

  /** Tell the kernel what the person did in this view, with this button; if it is not heard, say how to interrupt. */
  ask(message, view, button) {
    const id = `${PAGE}:${++this.count}`; // all pages hear what is heard: each knows its own
    this.waiting.set(id, { view, button, timer: setTimeout(() => this.unheard(id), PATIENCE) });
    this.say({ ...message, id });
  }

  unheard(id) {
    const { view, button } = this.waiting.get(id); // it stays there: it may be heard later
    view.free(button);
    view.hint(STUCK);
  }

  heard({ id, error, note, fields }) {
    const asked = this.waiting.get(id);
    if (!asked) return; // of another page
    clearTimeout(asked.timer);
    this.waiting.delete(id);
    asked.view.settled(asked.button, error, note, fields);
  }

  hear(message) {
    if (message.whole || message.kind === "ended") this.greeted();
    if (message.kind === "frame") this.frame(message);
    else if (message.kind === "fill") {
      this.fills.set(message.key, message.html);
      this.views.forEach((view) => view.fill(message.key));
    } else if (message.kind === "heard") this.heard(message);
    else if (message.kind === "ended") {
      this.end(message);
    }
  }

  /** The run is over, and the output of this page was not replaced by its saved form: do it here, or at least show it. */
  end({ html, text, unsaved }) {
    this.ended = html;
    this.forget();
    const kept = this.outputs.keep({ "text/html": html, "text/plain": text });
    if (!kept) this.ended += unsaved;
    if (this.views.size) this.views.forEach((view) => view.end(this.ended));
    else this.gone();
  }

  frame(frame) {
    this.clock = frame.now - Date.now();
    this.changedAt = frame.changed_at;
    if (frame.details !== undefined) this.detailed = frame.details;
    if (frame.whole) this.reset();
    else if (frame.seq !== this.seq + 1) {
      if (frame.seq > this.seq) this.resync();
      return;
    }
    this.lost = false;
    this.seq = frame.seq;
    Object.assign(this.slots, frame.slots);
    for (const round of frame.rounds) this.keep(round);
    this.state = frame.say;
    this.going = frame.going && frame.heard; // only then there is somebody to say something to
    this.take(frame);
    this.views.forEach((view) => (frame.whole ? view.all() : view.patch(frame)));
  }

  resync() {
    if (this.lost) return;
    this.lost = true;
    this.say({ do: "resync" });
    setTimeout(() => (this.lost = false), 1000);
  }

  keep({ index, keys, html }) {
    const known = this.rounds.get(index)?.html ?? {};
    this.rounds.set(index, { keys, html: Object.fromEntries(keys.map((key) => [key, html[key] ?? known[key]])) });
  }

  take({ streaming, stream, whole }) {
    // The number of the stream: between two frames one may have ended and the next begun.
    if (whole) this.stream = stream;
    else if (streaming === null || streaming !== this.streaming) this.stream = { settled: [], tail: "", kind: "text", thought: "" };
    this.streaming = streaming;
    if (!whole && streaming !== null) {
      this.stream.settled.push(...(stream.add ?? []));
      this.stream.tail = stream.tail ?? this.stream.tail + (stream.more ?? "");
      this.stream.kind = stream.kind ?? this.stream.kind;
      this.stream.thought += stream.more_thought ?? "";
    }
  }
}
