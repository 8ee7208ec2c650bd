// The order of the todos in a card: dragging one to another place, and moving it up or down. The kernel decides what comes of it.

/** Dragging within one card; `ask` sends where a todo is to go. */
class TodoDrag {
  constructor(root, ask) {
    this.root = root;
    this.ask = ask;
    for (const kind of ["dragstart", "dragover", "dragend", "drop"]) root.addEventListener(kind, (event) => this[kind](event));
  }

  dragstart(event) {
    this.dragged = event.target.closest?.("[data-todo]");
    if (this.dragged) event.dataTransfer.effectAllowed = "move";
  }

  dragover(event) {
    const over = event.target.closest?.("[data-todo]");
    if (!this.dragged || !over || over === this.dragged) return;
    event.preventDefault();
    this.unmark();
    over.classList.add(below(event, over) ? "agentnb-drop-below" : "agentnb-drop-above");
  }

  drop(event) {
    const over = event.target.closest?.("[data-todo]");
    if (!this.dragged || !over || over === this.dragged) return;
    event.preventDefault();
    const before = below(event, over) ? over.nextElementSibling?.dataset.todo : over.dataset.todo;
    if (before !== this.dragged.dataset.todo) this.ask({ do: "move", key: this.dragged.dataset.todo, before: before ?? null });
    this.dragend();
  }

  dragend() {
    this.unmark();
    this.dragged = null;
  }

  unmark() {
    for (const one of this.root.querySelectorAll("[data-todo]")) one.classList.remove("agentnb-drop-above", "agentnb-drop-below");
  }
}

/** The message that moves a todo one place up or down; null at the end of the list. */
function moved(item, way) {
  const next = item.nextElementSibling;
  const before = way === "up" ? item.previousElementSibling?.dataset.todo : (next?.nextElementSibling?.dataset.todo ?? null);
  if (way === "up" ? before === undefined : !next?.dataset.todo) return null;
  return { do: "move", key: item.dataset.todo, before };
}

function below(event, item) {
  const { top, height } = item.getBoundingClientRect();
  return event.clientY > top + height / 2;
}
