"""Numbers of tools and MCP servers that a person may want to change: time limits, and sizes of what models get."""

from __future__ import annotations

MAX_ROWS = 30
"""Rows of a table that a model and a card get; of a longer one the first and the last."""
MAX_COLUMNS = 20
"""Columns of a table whose rows are shown."""
MAX_PIXELS = 1_568
"""Pixels of the longer side of a picture drawn here: models see no more of it."""
READ_CHARACTERS = 4_000
"""Characters of a long result that one call reads on."""
MAX_FILE_BYTES = 10_000_000
"""Bytes of the largest file that tools read or search."""
MAX_COMMAND_SECONDS = 300
"""Seconds that a model may give a command."""
MAX_TERMINAL_BYTES = 1_000_000
"""Bytes of output that are kept of a terminal of an agent of others."""
MAX_WATCHED_ENTRIES = 20_000
"""Files and folders that are looked at before and after a run of such an agent."""
MAX_WATCHED_BYTES = 20_000_000
"""Bytes of these files that are read before it, so that a file that was only touched is not named as changed."""
GIT_SECONDS = 60.0
"""Seconds of one process of git."""
GITHUB_SECONDS = 40.0
"""Seconds of a call to GitHub."""
WEB_SECONDS = 30.0
"""Seconds to fetch a page."""
WEB_BYTES = 2_000_000
"""Bytes that are read of a page, compressed or not."""
WEB_CHARACTERS = 100_000
"""Characters of the text of a page that are returned."""
DEFAULT_TIMEOUT = 60.0
"""Seconds that a call of an MCP server may take without progress, unless the server is configured otherwise."""
DEFAULT_MAX_SECONDS = 600.0
"""Seconds that such a call with progress may take."""
START_SECONDS = 60.0
"""Seconds that an MCP server may take to start and to list its tools, or its own time limit if that is longer."""
CONNECT_SECONDS = 30.0
"""Seconds to reach an MCP server at an address; how long a call takes is limited by its tool."""
LOGIN_SECONDS = 600.0
"""Seconds that the person has in the browser to log in to an MCP server."""
MAX_QUESTIONS = 10
"""Questions that an MCP server may ask in one call."""
MAX_OFFERED = 40
"""Tools that each request offers; of more, those of MCP servers are found by words."""
MAX_TEXT_CHARACTERS = 200_000
"""Characters of a text of an MCP server, of a longer one beginning and end."""
