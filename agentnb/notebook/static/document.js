// The outputs of the notebook that show a widget, and writing what is to be saved in their place. After a page reload no update of
// an output arrives from the kernel, so the page writes the finished run itself.
// JupyterLab and Notebook 7 lead from a widget to the notebook's own model; that is documented nowhere. So each name is looked for
// before it is used, and where there is none (VS Code, Colab), nothing is found and nothing happens.

const WIDGET_VIEW = "application/vnd.jupyter.widget-view+json";
const PATIENCE = 3000; // milliseconds after which a click that nobody has heard is told
const REPEATS = [50, 100, 250, 600, 2000]; // milliseconds between two attempts: together as long as PATIENCE
const STUCK = "The kernel is not responding. Interrupt it with Kernel → Interrupt";
const GONE = ["restarting", "autorestarting", "dead"]; // states of a kernel that has lost what it knew

/** Do this again and again, until it returns false or the returned function is called: in its first moments a comm speaks to the
 *  shell that the cell keeps busy. */
function repeated(act) {
  let timer;
  const again = (attempt) => {
    if (act(attempt) !== false) timer = setTimeout(again, REPEATS[Math.min(attempt, REPEATS.length - 1)], attempt + 1);
  };
  again(0);
  return () => clearTimeout(timer);
}

/** The notebook, as far as it shows the widget with this id. */
class NotebookOutputs {
  constructor(model, id) {
    this.context = model.widget_manager?.context;
    this.id = id;
  }

  /** Whether an output with this data shows the widget. */
  shows(data) {
    return data?.[WIDGET_VIEW]?.model_id === this.id;
  }

  /** Where the widget is an output of the notebook: lists of outputs, and places in them. */
  places() {
    const found = [];
    const cells = this.context?.model?.cells;
    for (let cell = 0; cell < (cells?.length ?? 0); cell++) {
      const outputs = cells.get?.(cell)?.outputs;
      for (let place = 0; place < (outputs?.length ?? 0); place++) {
        if (this.shows(outputs.get?.(place)?.data)) found.push({ outputs, place });
      }
    }
    return found;
  }

  get hold() {
    try {
      return this.places().length > 0;
    } catch {
      return false;
    }
  }

  /** Replace the widget with this; whether it was there. The notebook is then changed, and saved as after any edit. */
  keep(data) {
    try {
      const places = this.places();
      for (const { outputs, place } of places) {
        const { type, executionCount } = outputs.get(place);
        const count = type === "execute_result" ? { execution_count: executionCount ?? null } : {};
        outputs.set(place, { output_type: type, data, metadata: {}, ...count });
      }
      return places.length > 0;
    } catch {
      return false;
    }
  }

  /** Call this when the kernel is restarted, shut down or changed, or has died; returns how to listen no longer. */
  onGone(call) {
    const session = this.context?.sessionContext;
    const status = (_, now) => GONE.includes(now) && call();
    const kernel = (_, { oldValue, newValue } = {}) => oldValue && oldValue.id !== newValue?.id && call();
    try {
      session?.statusChanged?.connect?.(status);
      session?.kernelChanged?.connect?.(kernel);
    } catch {
      // as where there is no session
    }
    return () => {
      session?.statusChanged?.disconnect?.(status);
      session?.kernelChanged?.disconnect?.(kernel);
    };
  }
}
