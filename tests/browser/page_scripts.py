"""Scripts for a page of JupyterLab or the classic Notebook and its kernel; `pages` runs them."""

from __future__ import annotations

CURRENT = "Array.from(window.jupyterapp?.shell.widgets('main') ?? []).find(it => it.sessionContext && it.content?.outerNode)"
"""The notebook, even if another view has the focus."""
KERNEL = f"{CURRENT}?.sessionContext?.session?.kernel"
IDLE = f"""() => {{
    const kernel = {KERNEL};
    const cells = [...kernel?._futures.values() ?? []].filter(one => one.msg.header.msg_type === 'execute_request');
    return kernel?.status === 'idle' && cells.every(one => one._status & 4);
}}"""
"""A sent message is a future of the page with status bits. The 4: it has a reply and is done.
The notebook's own status indicator shows it 150 ms later."""
PUT_CELLS = f"""sources => {{
    const {{content}} = {CURRENT}, model = content.model.sharedModel, before = model.cells.length;
    model.transact(() => {{
        model.insertCells(before, sources.map(source => ({{cell_type: 'code', source}})));
        model.deleteCellRange(0, before);
    }});
    content.outerNode.scrollTop = 0;
}}"""
"""Replace all code cells of the open notebook."""
CLOSE_ALL = """() => {
    for (const one of [...window.jupyterapp.shell.widgets('main')]) {
        if (one.context?.model) one.context.model.dirty = false;
        one.dispose();
    }
    cancelAnimationFrame(window.__looking);
}"""
"""Close everything without asking to save."""
CLEAR_SHARED = f"""() => {{
    const shared = {CURRENT};
    for (const widget of [...window.jupyterapp.shell.widgets('main')]) if (widget !== shared) widget.dispose();
    cancelAnimationFrame(window.__looking);
    ({PUT_CELLS})(['']);
}}"""
"""Leave the shared notebook open with one empty cell, and close everything else."""
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
"""Reset a kernel: variables, the extension with its session, widgets, switches of cards."""
STATE = f"""() => {{
    const shown = [...window.jupyterapp?.shell.widgets('main') ?? []].map(it => it.context?.path ?? it.id);
    const cells = {CURRENT}?.content.model.sharedModel.cells ?? [];
    const kinds = one => Object.keys(one.data ?? {{}}).join(' ') || one.output_type;
    const outputs = cells.map(cell => (cell.toJSON().outputs ?? []).map(kinds));
    const status = {KERNEL}?.status;
    const nodes = [...document.querySelectorAll('.jp-Cell-outputWrapper')].map(it => it.textContent.trim().slice(0, 200));
    return JSON.stringify({{address: location.href, shown, status, outputs, nodes}}, null, 1);
}}"""
"""A description of the page for the report of a failure."""
ANSWERED = """async kernel => {
    for (let answered = false; !answered;) {
        const asked = kernel.requestKernelInfo().then(() => true);
        answered = await Promise.race([asked, new Promise(resolve => setTimeout(() => resolve(false), 3000))]);
    }
}"""
"""Ask the kernel until it answers: a new one reports idle and may lose its first message."""
HEARS_OF_WIDGETS = f"() => {KERNEL}?._targetRegistry['jupyter.widget']"
"""True if the page accepts widgets of its kernel. The classic Notebook does so some time after it has the kernel; it refuses
earlier widgets and shows only the saved form."""
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
"""A target is marked only briefly: on a busy page the mark may vanish before a test looks."""
REACHED_SOON = f"""text => new Promise(done => {{
    const until = performance.now() + 3000;
    const look = () => ({REACHED})(text) ? done(true) : performance.now() > until ? done(false) : setTimeout(look, 50);
    look();
}})"""
