"""Limits of tools and MCP servers that a person may want to change: times, and sizes of results."""

from __future__ import annotations

MAX_ROWS = 30
"""Maximum number of table rows in results and cards; for a longer table, its first and last rows."""
MAX_COLUMNS = 20
"""Maximum number of columns shown per table."""
MAX_PIXELS = 1_568
"""Maximum number of pixels on the longer side of a rendered picture: models downscale larger ones."""
READ_CHARACTERS = 4_000
"""Number of characters of a long result that one call to ``read_result`` returns."""
MAX_FILE_BYTES = 10_000_000
"""Maximum size of files that tools read or search."""
MAX_COMMAND_SECONDS = 300
"""Maximum number of seconds that a model may request for a command."""
MAX_TERMINAL_BYTES = 1_000_000
"""Maximum number of output bytes kept per terminal of an ACP agent."""
MAX_AGENTS = 4
"""Maximum number of ACP agents that run at once; an agent that runs within another is not counted."""
MAX_WATCHED_ENTRIES = 20_000
"""Maximum number of files and folders compared before and after a run of an ACP agent."""
MAX_WATCHED_BYTES = 20_000_000
"""Maximum number of bytes of these files read in advance, to tell changed files from touched ones."""
GIT_SECONDS = 60.0
"""Time limit of a git process."""
GITHUB_SECONDS = 40.0
"""Time limit of a GitHub call."""
WEB_SECONDS = 30.0
"""Time limit of fetching a page."""
WEB_BYTES = 2_000_000
"""Maximum number of bytes read from a page, before and after decompression."""
WEB_CHARACTERS = 100_000
"""Maximum number of characters returned from a page."""
DEFAULT_TIMEOUT = 60.0
"""Default time limit in seconds for MCP calls that report no progress."""
DEFAULT_MAX_SECONDS = 600.0
"""Time limit in seconds for MCP calls that report progress."""
START_SECONDS = 60.0
"""Seconds for an MCP server to start and list its tools, or the server's own time limit if longer."""
CONNECT_SECONDS = 30.0
"""Seconds to connect to a remote MCP server; the duration of a call is limited by its tool."""
LOGIN_SECONDS = 600.0
"""Seconds for the person to log in to an MCP server in the browser."""
MAX_QUESTIONS = 10
"""Maximum number of questions that an MCP server may ask per call."""
MAX_OFFERED = 40
"""Maximum number of tools per request; beyond that, tools of MCP servers are found by search."""
MAX_TEXT_CHARACTERS = 200_000
"""Maximum number of characters in a text from an MCP server, half from its beginning and half from its end."""
