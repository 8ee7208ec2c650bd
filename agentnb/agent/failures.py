"""What the model, and the person, are told of a tool that failed."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

from agentnb.core.messages import encodable
from agentnb.tools.tool import ToolOutcome, failure

_PACKAGE = str(Path(__file__).resolve().parents[1])


def raised(tool: str, error: BaseException) -> ToolOutcome:
    """An exception of the tool itself."""
    words = encodable("".join(traceback.format_exception_only(error)).strip())
    return failure(
        "tool_error",
        f"{words}\n{tool} did not finish. Change the arguments if they are the cause, use another tool, or say what is wrong.",
    )


def timed_out(tool: str, seconds: float) -> ToolOutcome:
    """The tool took longer than it may."""
    return failure(
        "timeout",
        f"{tool} did not finish within {seconds:g} seconds and was given up. Ask for less at once, or use another tool.",
    )


def cancelled() -> ToolOutcome:
    """The run was stopped before the call ended."""
    return failure("cancelled", "The person stopped the run before this call had ended. Do not assume that it took effect.")


def users_traceback(error: BaseException) -> str:
    """The traceback as the person needs it: their own frames, none of ours."""
    frames = error.__traceback__
    while frames is not None and _is_ours(frames):
        frames = frames.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames))
    return encodable(text)


def _is_ours(frame: TracebackType) -> bool:
    filename = frame.tb_frame.f_code.co_filename
    return filename.startswith(_PACKAGE) or "concurrent/futures" in filename or "asyncio" in filename
