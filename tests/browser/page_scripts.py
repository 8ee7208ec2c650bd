"""Scripts for a page of JupyterLab or the classic Notebook, and for its kernel: what `pages` has them do."""

from __future__ import annotations

CURRENT = "Array.from(window.jupyterapp?.shell.widgets('main') ?? []).find(it => it.sessionContext && it.content?.outerNode)"
"""The notebook, also while another view has the focus."""
KERNEL = f"{CURRENT}?.sessionContext?.session?.kernel"
IDLE = f"""() => {{
    const kernel = {KERNEL};
    const cells = [...kernel?._futures.values() ?? []].filter(one => one.msg.header.msg_type === 'execute_request');
    return kernel?.status === 'idle' && cells.every(one => one._status & 4);
}}"""
"""What was sent to the kernel is a future of the page, with a bit for what came of it. The 4: its reply, and that it is done.
The notebook's own sign waits another 150 ms to show it."""
PUT_CELLS = f"""sources => {{
    const {{content}} = {CURRENT}, model = content.model.sharedModel, before = model.cells.length;
    model.transact(() => {{
        model.insertCells(before, sources.map(source => ({{cell_type: 'code', source}})));
        model.deleteCellRange(0, before);
    }});
    content.outerNode.scrollTop = 0;
}}"""
"""Put code cells in the place of all that the open notebook has."""
CLOSE_ALL = """() => {
    for (const one of [...window.jupyterapp.shell.widgets('main')]) {
        if (one.context?.model) one.context.model.dirty = false;
        one.dispose();
    }
    cancelAnimationFrame(window.__looking);
}"""
"""Close what is open, and ask nobody whether to save it."""
CLEAR_SHARED = f"""() => {{
    const shared = {CURRENT};
    for (const widget of [...window.jupyterapp.shell.widgets('main')]) if (widget !== shared) widget.dispose();
    cancelAnimationFrame(window.__looking);
    ({PUT_CELLS})(['']);
}}"""
"""Leave the notebook that tests share open, with one empty cell, and close all else."""
FORGET = """
def forget():
    import gc, sys
    from ipywidgets import Widget
    from agentnb.notebook.card.view import card_settings
    shell = get_ipython()
    shell.run_line_magic("unload_ext", "agentnb")
    for name in [name for name in vars(shell) if name.startswith("_agentnb")]:
        delattr(shell, name)
    Widget.close_all()
    card_settings.cache_clear()
    sys.modules.pop("story", None)
    notebook = shell.user_ns.get("__session__")
    shell.reset(new_session=False)
    shell.user_ns["__session__"] = notebook
    gc.collect()
forget()
"""
"""Make a kernel forget what a test has done in it: variables, the extension with its session, widgets, switches of cards."""
STATE = f"""() => {{
    const shown = [...window.jupyterapp?.shell.widgets('main') ?? []].map(it => it.context?.path ?? it.id);
    const cells = {CURRENT}?.content.model.sharedModel.cells ?? [];
    const kinds = one => Object.keys(one.data ?? {{}}).join(' ') || one.output_type;
    const outputs = cells.map(cell => (cell.toJSON().outputs ?? []).map(kinds));
    const status = {KERNEL}?.status;
    const nodes = [...document.querySelectorAll('.jp-Cell-outputWrapper')].map(it => it.textContent.trim().slice(0, 200));
    return JSON.stringify({{address: location.href, shown, status, outputs, nodes}}, null, 1);
}}"""
"""What a person would report of a page that does not show what it should."""
ANSWERED = """async kernel => {
    for (let answered = false; !answered;) {
        const asked = kernel.requestKernelInfo().then(() => true);
        answered = await Promise.race([asked, new Promise(resolve => setTimeout(() => resolve(false), 3000))]);
    }
}"""
"""Ask the kernel until it answers: one that has just begun says that it is idle, and may lose the first thing it is sent."""
HEARS_OF_WIDGETS = f"() => {KERNEL}?._targetRegistry['jupyter.widget']"
"""Whether the page takes widgets of its kernel. The classic Notebook does so some time after it has the kernel: it refuses a
widget that opens before, and shows only the saved form."""
LOOK_FOR_KERNELS = """async () => {
    await window.jupyterapp.serviceManager.sessions.refreshRunning();
    await window.jupyterapp.serviceManager.kernels.refreshRunning();
}"""
SETTLED = """async () => {
    const {shell, commands, serviceManager} = window.jupyterapp;
    if (shell.leftCollapsed) await commands.execute('application:toggle-left-area');
    await serviceManager.sessions.refreshRunning();
    await serviceManager.kernels.refreshRunning();
    return document.querySelectorAll('.jp-Dialog, .jp-Notebook').length;
}"""
NOTE_REACHED = """() => {
    window.__reached = [];
    window.__noting ??= new MutationObserver(changes => {
        const marked = changes.map(change => change.target).filter(one => one.classList.contains('agentnb-here'));
        window.__reached.push(...marked.map(one => one.textContent));
    });
    window.__noting.observe(document.body, {subtree: true, attributes: true, attributeFilter: ['class']});
}"""
REACHED = "text => window.__reached.some(one => one.includes(text))"
"""A target is marked only briefly: on a busy page the mark may be gone before a test looks."""
REACHED_SOON = f"""text => new Promise(done => {{
    const until = performance.now() + 3000;
    const look = () => ({REACHED})(text) ? done(true) : performance.now() > until ? done(false) : setTimeout(look, 50);
    look();
}})"""
