"""MCP configuration files of other programs: where the servers are in them, and the names of their settings."""

from __future__ import annotations

from typing import NamedTuple

SECONDS, MILLISECONDS = 1.0, 0.001
LONGEST_SECONDS = 3_600
"""Maximum time limit in programs that count in seconds: larger multiples of 1,000 are taken as milliseconds."""


class Product(NamedTuple):
    """A program with a supported configuration file."""

    name: str
    places: tuple[str, ...]
    """Paths of keys to the program's servers, separated by spaces; ``*`` stands for any key, "" for the document itself."""
    unit: float | None = None
    """Seconds per unit of ``timeout``, or None if the program has no fixed unit, so that the number decides."""
    files: tuple[str, ...] = ()
    """Endings of the program's file paths, if several programs use the same keys."""
    marks: tuple[str, ...] = ()
    """Settings unique to the program, including ``type WORD``; `BARE` stands for its variables."""
    least: float = 0
    """Minimum ``timeout`` that the program accepts."""
    is_guess: bool = False
    """True if the keys also have other uses: then only entries with a command or an address are servers."""


BARE = "$NAME"
"""Variables without braces."""
_SHARED = ("mcpServers",)
PRODUCTS = (
    # https://code.claude.com/docs/en/mcp: servers of a project take precedence
    Product("Claude Code", ("projects * mcpServers",), MILLISECONDS, least=1_000, is_guess=True),
    # https://code.visualstudio.com/docs/copilot/reference/mcp-configuration
    Product("VS Code", ("servers", "mcp servers", "mcp.servers", "settings mcp servers", "customizations vscode mcp servers")),
    # https://zed.dev/docs/ai/mcp; "in seconds": ContextServerCommand in crates/settings_content/src/project.rs
    Product("Zed", ("context_servers",), SECONDS),
    # https://ampcode.com/manual#mcp
    Product("Amp", ("amp.mcpServers", "amp mcpServers")),
    # https://docs.augmentcode.com/setup-augment/mcp
    Product("Augment", ("augment.advanced mcpServers",)),
    # https://docs.continue.dev/reference/json-reference
    Product("Continue", ("experimental modelContextProtocolServers",)),
    # https://docs.mistral.ai/vibe/code/cli/mcp-servers
    Product("Mistral Vibe", ("mcp_servers",), SECONDS, marks=("transport",)),
    # https://developers.openai.com/codex/mcp
    Product("Codex", ("mcp_servers",), SECONDS),
    # https://opencode.ai/docs/mcp-servers and /docs/config#variables
    Product(
        "opencode", ("mcp",), MILLISECONDS, ("opencode.json", "opencode.jsonc"), ("type local", "type remote"), is_guess=True
    ),
    # https://github.com/charmbracelet/crush#mcps
    Product("Crush", ("mcp",), SECONDS, marks=(BARE,), is_guess=True),
    # https://block.github.io/goose/docs/guides/config-files
    Product("Goose", ("extensions",), SECONDS, marks=(BARE,), is_guess=True),
    # https://docs.github.com/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers
    Product("GitHub Copilot", _SHARED, MILLISECONDS, (".copilot/mcp-config.json",), ("type local",)),
    # https://kiro.dev/docs/mcp/configuration
    Product("Kiro", _SHARED, MILLISECONDS, ("kiro/settings/mcp.json", "amazonq/mcp.json", "amazonq/default.json")),
    # https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md
    Product(
        "Gemini CLI",
        _SHARED,
        MILLISECONDS,
        (".gemini/settings.json", ".qwen/settings.json", "gemini-extension.json"),
        (BARE, "httpUrl", "trust", "includeTools", "excludeTools"),
    ),
    # https://www.librechat.ai/docs/configuration/librechat_yaml/object_structure/mcp_servers
    Product("LibreChat", _SHARED, MILLISECONDS, ("librechat.yaml",), ("initTimeout", "serverInstructions", "customUserVars")),
    # https://code.claude.com/docs/en/mcp
    Product("Claude Code", _SHARED, MILLISECONDS, ("/.mcp.json", ".claude.json"), ("headersHelper", "alwaysLoad"), least=1_000),
    # https://docs.cline.bot/mcp/configuring-mcp-servers: 30 seconds to 1 hour
    Product("Cline", _SHARED, SECONDS, ("cline_mcp_settings.json",)),
    # https://docs.roocode.com/features/mcp/using-mcp-in-roo: 1 to 3600 seconds
    Product("Roo Code", _SHARED, SECONDS, ("/mcp_settings.json", ".roo/mcp.json", ".kilocode/mcp.json"), ("watchPaths",)),
    # https://docs.continue.dev/customize/deep-dives/mcp
    Product("Continue", _SHARED, None, (".continue/config.yaml",), ("connectionTimeout", "requestOptions")),
    # https://docs.cursor.com/context/model-context-protocol
    Product("Cursor", _SHARED, None, (".cursor/mcp.json",), ("envFile",)),
    # https://docs.windsurf.com/windsurf/cascade/mcp
    Product("Windsurf", _SHARED, None, ("windsurf/mcp_config.json",), ("serverUrl",)),
    # Claude Desktop, LM Studio, JetBrains, many others, and agentnb itself
    Product("", _SHARED),
    # a bare map, or the list of MCP_SERVERS
    Product("", ("",), is_guess=True),
)

PLACES = {
    tuple(keys.split()): [product for product in PRODUCTS if keys in product.places]
    for keys in dict.fromkeys(keys for product in PRODUCTS for keys in product.places)
}
"""Products by key path; the last one applies to files without the marks of any other."""

SETTINGS: dict[str, tuple[type, tuple[str, ...]]] = {
    "command": (str, ("command", "cmd")),
    "args": (list, ("args", "arguments")),
    "env": (dict, ("env", "envs", "environment")),
    "env_names": (list, ("env_vars", "env_keys")),
    "env_file": (str, ("envFile", "env_file")),
    "url": (str, ("url", "httpUrl", "serverUrl", "uri", "baseUrl")),
    "headers": (dict, ("headers", "http_headers")),
    "header_names": (dict, ("env_http_headers",)),
    "token": (str, ("bearer_token", "apiKey")),
    "token_name": (str, ("bearer_token_env_var", "api_key_env")),
    "token_header": (str, ("api_key_header",)),
    "token_format": (str, ("api_key_format",)),
    "cwd": (str, ("cwd", "workDir", "working_directory", "workingDirectory")),
    "roots": (list, ("roots",)),
    "type": (str, ("type", "transport", "transportType")),
    "source": (str, ("source",)),
    "timeout": (float, ("timeout",)),
    "timeout_seconds": (float, ("tool_timeout_sec", "read_timeout_seconds")),
    "max_seconds": (float, ("max_seconds",)),
    "disabled": (bool, ("disabled",)),
    "enabled": (bool, ("enabled", "isActive")),
    "name": (str, ("name",)),
}
"""Supported settings: type, and names in the files of programs."""
ALLOWED, EXCLUDED = ("mcp allowed", "allowMCPServers"), ("mcp excluded", "excludeMCPServers")
"""Keys of lists of allowed and of excluded servers."""
NAMES = ("name", "id", "key", "uses")
"""Settings that name a server in a list."""
GROUPS = ("transport", "config", "requestOptions", "source")
"""Objects in which some programs nest settings of a server."""
PROGRAM, REMOTE = ("stdio", "local", "process"), ("http", "streamablehttp", "streamable", "httpstream", "sse", "remote")
"""Values of ``type`` for local and for remote servers, in lowercase without punctuation."""
BUILT_IN = ("extension", "builtin", "platform", "frontend", "inlinepython", "sdk")
"""Values of ``type`` for servers that only their program can start."""
_NO_EFFECT = {
    "files cannot permit calls": ("alwaysAllow", "autoApprove", "autoAllow", "always_allow", "trust", "allowedTools"),
    "all its tools are offered, unless you name some as mcp:NAME/TOOL": (
        *("includeTools", "excludeTools", "tools", "enabled_tools", "disabled_tools", "disabledTools", "available_tools"),
    ),
    "the login is not read from files": ("oauth", "auth", "scopes", "oauth_resource", "headersHelper", "authProviderType"),
    "startup has its own time limit": ("startup_timeout_sec", "startup_timeout_ms", "initTimeout", "connectionTimeout"),
}
NO_EFFECT = {key: f": {reason}" for reason, keys in _NO_EFFECT.items() for key in keys}
"""Ignored settings of other programs, with the reason."""
UNUSED = (
    *("description", "id", "icon", "iconPath", "gallery", "version", "dev", "$schema", "title", "display_name", "bundled"),
    *("displayName", "registryUrl", "provider", "note", "comment", "settings", "tags", "key"),
)
"""Settings of other programs that only affect their user interface."""
