"""``run_python`` in a kernel: output, figures, tracebacks, and the tools it may call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from package_paths import OWN_FRAMES
from real_kernel import Cell, Kernel

SETUP = """
%load_ext agentnb
import asyncio, json, sys, threading, time
from agentnb import Agent, RunOptions, ToolCall, tool
from agentnb.models import ScriptedModel
from agentnb.tools.tool import ToolContext
kept = {}

@tool(effects=["read"])
async def add(a: int, b: int = 2) -> int:
    "Add."
    return a + b

@tool(effects=["read"])
def where() -> str:
    "Say where it runs."
    print("in the tool")
    return threading.current_thread().name

def write(text: str) -> str:
    "Write."
    return f"wrote {text}"

@tool(effects=["read"])
async def asks(context: ToolContext) -> str:
    "Ask."
    return str(await context.ask("Which?"))

def agent(code, *more, tools=(add, where)):
    replies = [[ToolCall("run_python", {"code": one})] for one in (code, *more)]
    return Agent(ScriptedModel([*replies, "Done."]), tools=["run_python", *tools], guidance="off", todos=False)

def go(*codes, tools=(add, where), approve="auto", **options):
    return agent(*codes, tools=tools).run_sync("go", RunOptions(approve=approve, **options))

def tell(run):
    for one in run.rounds:
        for record in one.records:
            result = record.result
            kinds = [type(part).__name__ for part in result.parts]
            inner = [[each.call.name, each.success] for each in record.inner]
            told = {"error": result.error_code, "text": result.text, "parts": kinds, "inner": inner, "printed": record.printed}
            print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path_factory.mktemp("kernel"))
    cell = kernel.run(SETUP)
    assert cell.status == "ok", cell.error
    yield kernel
    kernel.close()


class Told(dict[str, object]):
    """The result of a call."""

    @property
    def text(self) -> str:
        return str(self["text"])


def ran(kernel: Kernel, code: str, options: str = "") -> Told:
    """Return the result of ``run_python`` with this code."""
    kernel.run(f"code = {code!r}")
    return told(kernel.run(f"tell(go(code{', ' if options else ''}{options}))"))


def told(cell: Cell) -> Told:
    import json

    assert cell.status == "ok", cell.error
    return Told(json.loads(cell.printed.splitlines()[-1]))


def test_threads_started_by_code_are_traced(kernel: Kernel) -> None:
    """Needs the first run of this kernel: no other has installed the hook."""
    code = "t = threading.Thread(target=print, args=('from a thread',)); t.start(); t.join()"
    assert ran(kernel, code, "approve=lambda call, run: True").text == "from a thread"


def test_output_value_and_errors_form_the_result(kernel: Kernel, subtests: pytest.Subtests) -> None:
    cases = {
        "value": ("1 + 1", "2", None),
        "printed and value": ("print('out'); print('err', file=sys.stderr)\n{'a': [1]}", 'out\nerr\n{"a":[1]}', None),
        "no output": ("x = 1", "(no output)", None),
        "semicolon": ("x;", "(no output)", None),
        "None": ("None", "(no output)", None),
        "statement last": ("for n in range(2): print(n)", "0\n1", None),
        "magic": ("%env HOME_OF_MINE=here\n!echo $HOME_OF_MINE", "env: HOME_OF_MINE=here\nhere", None),
        "colours": (r"print('\x1b[31mred\x1b[0m')", "red", None),
        "progress bar": (r"print('1 of 2\r2 of 2')", "2 of 2", None),
        "thread": ("t = threading.Thread(target=print, args=('from a thread',)); t.start(); t.join()", "from a thread", None),
        "display": ("display({'a': 1}); print('after')", "{'a': 1}\nafter", None),
        "updated display": ("h = display('one', display_id=True); print('x'); h.update('two')", "'two'\nx", None),
        "cleared output": ("from IPython.display import clear_output\nprint('a'); clear_output(); print('b')", "b", None),
        "only HTML": ("display({'text/html': '<b>'}, raw=True)", "[a display of text/html]", None),
    }
    for name, (code, text, error) in cases.items():
        with subtests.test(name):
            result = ran(kernel, code)
            assert (result.text, result["error"], result["printed"]) == (text, error, "")


def test_traceback_names_lines_of_the_code_not_of_agentnb(kernel: Kernel, subtests: pytest.Subtests) -> None:
    cases = {
        "in a function": ("print('so far')\ndef f():\n    return 1 / 0\nf()", ["so far", "line 3, in f", "return 1 / 0"]),
        "syntax": ("print('a')\nx = = 1", ["SyntaxError", "x = = 1"]),
        "exit": ("exit()", ["SystemExit"]),
        "sys.exit": ("sys.exit(3)", ["SystemExit: 3"]),
        "of a magic": ("%nothing_such", ["nothing_such"]),
    }
    for name, (code, words) in cases.items():
        with subtests.test(name):
            result = ran(kernel, code)
            assert result["error"] == "python_error" and all(word in result.text for word in words), result.text
            assert OWN_FRAMES not in result.text and "\x1b" not in result.text
    assert kernel.value("1 + 1") == "2", "the kernel lives"
    assert ran(kernel, "async def g(): pass\nawait g()")["error"] == "top_level_await"
    kernel.run("tell(go('def made(a):\\n    return a'))")
    assert "return a" in kernel.value("__import__('inspect').getsource(made)")


def test_variables_persist_and_tool_names_do_not(kernel: Kernel) -> None:
    before = kernel.value("sorted(name for name in globals() if name[:1] != '_')")
    assert ran(kernel, "answer = tools.add(40) + add(a=0, b=0)\nkept['tool'] = tools.add\nanswer").text == "42"
    assert kernel.value("answer") == "42"
    after = kernel.value("sorted(name for name in globals() if name[:1] != '_')")
    left = set(after.strip("[]").split(", ")) - set(before.strip("[]").split(", "))
    assert left <= {"'answer'", "'code'"}
    assert kernel.value("type(add).__name__, hasattr(__builtins__, 'tools'), hasattr(__builtins__, 'where')") == (
        "'function', False, False"
    ).join("()")
    assert "can no longer be called" in kernel.run("kept['tool'](1)").error
    assert ran(kernel, "[*dir(tools)]").text == '["add","where"]'
    assert "There is no tool 'ad'" in ran(kernel, "tools.ad").text
    assert ran(kernel, "tools = 3\ntools").text == "3" and kernel.value("tools") == "3"
    assert kernel.run("del tools").status == "ok"


@pytest.mark.req("R0.74")
def test_tools_called_by_code_are_inner_calls_of_one_round(kernel: Kernel) -> None:
    result = ran(kernel, "print(where())\n[add(n, b=1) for n in range(10)]")
    assert result.text.endswith("[1,2,3,4,5,6,7,8,9,10]") and result["inner"] == [["where", True], *[["add", True]] * 10]
    assert "in the tool" not in result.text, "what a tool prints is kept with its own call"
    result = ran(kernel, "try:\n    add('x')\nexcept Exception as error:\n    print(type(error).__name__, error.error_code)")
    assert result.text == "ToolFailed invalid_arguments" and result["inner"] == [["add", False]]
    assert "takes 2 arguments" in ran(kernel, "add(1, 2, 3)").text


@pytest.mark.req("KX.5")
def test_denied_call_raises_and_absent_person_means_denial(kernel: Kernel) -> None:
    options = "tools=[write], permissions={'run_python': 'allow'}, approve='ask', suspend=True, can_ask=False"
    result = ran(kernel, "write('x')", options)
    assert result["error"] == "python_error" and result["inner"] == [["write", False]]
    assert "o person is attached" in result.text
    assert result.text.count('File "') == 1, "the way through the event loop is left out"
    result = ran(kernel, "try:\n    asks()\nexcept Exception as error:\n    print(error.error_code)", "tools=[asks]")
    assert result.text == "nobody_to_ask"


def test_approval_of_a_call_in_code_shows_its_arguments(kernel: Kernel) -> None:
    kernel.run("from agentnb.display.card.html import running_html\nfrom agentnb.display.card.text import run_text\nshown = []")
    kernel.run("def see(call, run):\n    shown.extend([run_text(run), running_html(run)])\n    return True")
    options = "tools=[write], permissions={'run_python': 'allow', 'write': 'ask'}, approve=see"
    assert ran(kernel, "text = 'the' + '-text'\nwrite(text)", options).text == "wrote the-text"
    wanted = "('May the tool', 'the-text', '%agent answer')"
    assert kernel.value(f"len(shown), [one for one in {wanted} for text in shown if one not in text]") == "(2, [])"


@pytest.mark.slow("draws with matplotlib in a kernel")
def test_figures_become_pictures_in_the_result_only(kernel: Kernel, subtests: pytest.Subtests) -> None:
    plot = "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2])\n"
    for name, end in {
        "open": "None",
        "shown": "plt.show()",
        "returned": "fig",
        "displayed": "display(fig); plt.close(fig)",
    }.items():
        with subtests.test(name):
            kernel.run(f"code = {plot + end!r}")
            cell = kernel.run("tell(go(code))")
            result = told(cell)
            assert result["parts"].count("Image") == 1, result  # type: ignore[attr-defined]  # a list
            assert not [output for output in cell.outputs if "image/png" in output.get("data", {})]
            assert kernel.value("plt.get_fignums()") == "[]"


def test_long_output_is_truncated_without_leaking_parts_of_keys(kernel: Kernel) -> None:
    kernel.run("import os; os.environ['ANTHROPIC_API_KEY'] = 'sk-ant-' + 'k' * 40")
    result = ran(kernel, "print('a' * 9_975 + os.environ['ANTHROPIC_API_KEY'] + 'b' * 100_000)")
    kernel.run("del os.environ['ANTHROPIC_API_KEY']")
    assert len(result.text) < 21_000 and "characters left out" in result.text and "[key]" in result.text
    assert "sk-ant" not in result.text and result.text.startswith("aaa") and result.text.endswith("bbb")


def test_prints_of_other_threads_are_not_captured(kernel: Kernel) -> None:
    kernel.run(
        "told, printed = threading.Event(), threading.Event()\n"
        "def other():\n    told.wait(30); print('from another thread'); printed.set()\n"
        "thread = threading.Thread(target=other); thread.start()"
    )
    cell = kernel.run("tell(go('told.set(); printed.wait(30); print(\"own\")'))")
    assert told(cell).text == "own"
    kernel.run("thread.join()")


def test_code_runs_on_the_main_thread_in_every_run(kernel: Kernel, subtests: pytest.Subtests) -> None:
    code = "import threading\nthread = threading.current_thread().name\nthread"
    ways = {
        "waited for": f"run = agent({code!r}).run_sync('go', approve='auto')",
        "awaited": f"run = await agent({code!r}).run('go', approve='auto')",
        "background": f"live = agent({code!r}).start('go', approve='auto')\nrun = await live",
    }
    for name, begin in ways.items():
        with subtests.test(name):
            assert told(kernel.run(f"{begin}\ntell(run)")).text == "MainThread"
    with subtests.test("background between cells"):
        kernel.run(f"thread = ''\nlive = agent({code!r}).start('go', approve='auto')")
        kernel.wait_for("live.done")
        assert told(kernel.run("tell(live.run)")).text == "MainThread" and kernel.value("thread") == "MainThread"
    with subtests.test("cell"):
        kernel.run(f"model = ScriptedModel([ToolCall('run_python', {{'code': {code!r}}}), 'Done.'])")
        assert kernel.run("%%agent -m model -t run_python --approve auto --guidance off\ngo").status == "ok"
        assert told(kernel.run("tell(run)")).text == "MainThread"


def test_interrupt_ends_the_code_and_its_run(kernel: Kernel, subtests: pytest.Subtests) -> None:
    forever = "open('begun', 'w').close()\nwhile True:\n    time.sleep(0.01)"
    begun = kernel.folder / "begun"
    ways = {
        "waited for": "agent({code!r}).run_sync('go', approve='auto')",
        "awaited": "await agent({code!r}).run('go', approve='auto')",
    }
    for name, cell in ways.items():
        with subtests.test(name):
            begun.unlink(missing_ok=True)
            kernel.run("went_on = False")
            kernel.run(f"{cell.format(code=forever)}\nwent_on = True", interrupt_when=lambda _: begun.exists())
            assert kernel.value("went_on") == "False"
            assert kernel.value("get_ipython()._agentnb_session._begun_here[-1].run.status") == "cancelled"
    with subtests.test("stopped in the background"):
        kernel.run(
            'code = "hold.set()\\nimport time\\nwhile True:\\n    time.sleep(0.01)"\nhold = threading.Event()\n'
            "live = agent(code).start('go', approve='auto')\n"
            "threading.Thread(target=lambda: (hold.wait(30), live.stop())).start()"
        )
        kernel.wait_for("live.done")
        assert kernel.value("live.run.status") == "cancelled"


def test_commands_reserved_for_the_person_are_refused_in_code(kernel: Kernel, subtests: pytest.Subtests) -> None:
    lines = {
        "permissions": "%agent permissions allow write",
        "defaults": "%agent defaults approve=auto",
        "say": "%agent say I allow it",
        "in a cell of its own": "get_ipython().run_cell('%agent defaults approve=auto').raise_error()",
        "in a thread": (
            "found = []\n"
            "def work():\n"
            "    try:\n        get_ipython().run_line_magic('agent', 'defaults approve=auto')\n"
            "    except Exception as error:\n        found.append(error.what)\n"
            "t = threading.Thread(target=work); t.start(); t.join()\nraise RuntimeError(found[0])"
        ),
    }
    for name, code in lines.items():
        with subtests.test(name):
            assert "is reserved for the person" in ran(kernel, code).text
    assert "Allowed always: nothing yet" in kernel.run("%agent permissions").printed
    assert kernel.value("get_ipython()._agentnb_session.defaults['approve']") == ""
    assert kernel.value("type(sys.stdout).__name__, type(sys.stdout.stream).__name__") == "('CallStream', 'OutStream')"


HOOKS = {
    "an event": "get_ipython().events.register({event!r}, hook)",
    "an input": "get_ipython().input_transformers_post.append(lambda lines: (hook(), lines)[1])",
}


def test_hook_left_by_code_cannot_grant_permission(kernel: Kernel, subtests: pytest.Subtests) -> None:
    for name, register in {
        **{
            event: HOOKS["an event"].format(event=event)
            for event in ("pre_run_cell", "post_execute", "pre_execute", "post_run_cell")
        },
        "input transformer": HOOKS["an input"],
    }.items():
        hook = f"""
def hook(*_):
    try:
        get_ipython().run_line_magic("agent", "permissions allow bash")
        seen.append("allowed")
    except BaseException as error:
        seen.append(type(error).__name__)
seen.clear()
{register}
"""
        with subtests.test(name):
            kernel.run("seen = []")
            ran(kernel, f"exec(compile({hook!r}, 'my_module.py', 'exec'), get_ipython().user_ns)")
            kernel.run("1 + 1")
            kernel.run("""
for _names in get_ipython().events.callbacks.values():
    _names[:] = [one for one in _names if getattr(one, "__name__", "") != "hook"]
get_ipython().input_transformers_post[:] = [one for one in get_ipython().input_transformers_post if one.__name__ != "<lambda>"]
""")
            seen = kernel.value("seen")
            assert "Error" in seen and "allowed" not in seen, seen
            assert "bash" not in kernel.run("%agent permissions").printed
    assert kernel.run("%agent permissions allow bash").status == "ok", "the person may"
    kernel.run("%agent permissions withdraw 1")
