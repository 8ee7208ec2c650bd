"""MCP configuration files of other programs, as documented."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.display.texts.servers.server_file import describe_servers
from agentnb.errors import SettingsError
from agentnb.tools.mcp.expansion import expand_variables, secrets, values
from agentnb.tools.mcp.mcp_server import MCPServer
from agentnb.tools.mcp.products import GROUPS, NO_EFFECT, PLACES, SETTINGS
from agentnb.tools.mcp.server_settings import read_servers

X = MCPServer("x", "npx", ["-y", "x"])
HTTP = MCPServer("x", "https://x.example.org/mcp")
ADDRESS = {"url": "https://x.example.org/mcp"}
COMMAND: dict[str, Any] = {"command": "npx", "args": ["-y", "x"]}


def server(**settings: Any) -> MCPServer:

    return MCPServer("x", "npx", ["-y", "x"], **settings)


def remote(**settings: Any) -> MCPServer:
    return MCPServer("x", "https://x.example.org/mcp", **settings)


def shared(**fields: Any) -> str:
    return json.dumps({"mcpServers": {"x": fields}})


TOML = """
model = "gpt"
[mcp_servers.x]
command = "npx"
args = ["-y", "x"]
env = { "A" = "b" }
env_vars = ["HOME", { name = "LANG", source = "local" }]
startup_timeout_sec = 20
tool_timeout_sec = 90.5
[mcp_servers.far]
url = "https://x.example.org/mcp"
bearer_token_env_var = "TOKEN"
http_headers = { "X-A" = "b" }
env_http_headers = { "X-C" = "VARIABLE" }
enabled = true
[mcp_servers.old]
command = "old"
enabled = false
"""
GOOSE = """
extensions:
  # a comment
  x:
    type: stdio
    name: x
    enabled: true
    cmd: npx
    args: [-y, x]
    envs: {PORT: 80}
    env_keys: [TOKEN]
    timeout: 300
    bundled: null
  developer:
    type: builtin
    enabled: true
  far:
    type: streamable_http
    uri: https://x.example.org/mcp
    timeout: 7200
"""
CONTINUE = """
name: My Config
version: 1.0.0
mcpServers:
  - name: My Server
    type: sse
    url: https://x.example.org/mcp
    connectionTimeout: 5000
    requestOptions:
      headers:
        Authorization: Bearer ${{ secrets.TOKEN }}
"""
VSCODE = """{
  // servers of this folder
  "inputs": [],
  "servers": {
    "x": {"type": "stdio", "command": "npx", "args": ["-y", "x"], /* no key */ "env": {"PORT": 80, "NONE": null},},
  },
}"""
OPENCODE = """{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    "x": {"type": "local", "command": ["npx", "-y", "x"], "environment": {"A": "{env:B}"}, "enabled": true, "timeout": 5000},
    "far": {"type": "remote", "url": "https://x.example.org/mcp", "timeout": {"startup": 9, "request": 30000}, "oauth": {}},
    "jira": {"enabled": true},
  },
}"""
PROJECTS = json.dumps(
    {
        "mcpServers": {"x": {"command": "y"}, "all": {"command": "z"}},
        "projects": {
            "/h/p": {"allowedTools": [], "mcpServers": {"x": {"type": "stdio", **COMMAND}}},
            "/h/q": {"mcpServers": {"x": {"command": "q"}, "far": {"type": "http", **ADDRESS}}},
            "/h/r": {},
        },
    }
)
GEMINI = json.dumps(
    {"mcpServers": {"x": COMMAND, "y": COMMAND, "z": COMMAND}, "mcp": {"allowed": ["x", "y"], "excluded": ["y"]}}
)
OLDER_CONTINUE = json.dumps({"experimental": {"modelContextProtocolServers": [{"transport": {"type": "stdio", **COMMAND}}]}})
MERGED = """
base: &base {command: npx, args: [a]}
more: &more {command: other, env: {A: b}}
mcpServers:
  x:
    <<: [*base, *more]
    args: [-y, x]
"""
READ: tuple[tuple[str, str, str, list[MCPServer], int], ...] = (
    # what, file, text, servers, number of notes
    ("Claude Desktop", "claude_desktop_config.json", shared(**COMMAND), [X], 0),
    ("default", "mcp.json", shared(**COMMAND, env={"A": "${B:-c}"}), [server(env={"A": "${B:-c}"})], 0),
    ("command from a variable", "mcp.json", shared(command="${H}/x"), [MCPServer("x", "${H}/x", transport="stdio")], 0),
    ("Claude Code, type http", ".mcp.json", shared(type="http", **ADDRESS), [HTTP], 0),
    ("Claude Code, milliseconds", "/p/.mcp.json", shared(**COMMAND, timeout=2500), [server(timeout=2.5)], 1),
    ("Claude Code, ignored milliseconds", "/p/.mcp.json", shared(**COMMAND, timeout=60), [X], 1),
    (
        "Claude Code, projects",
        "/h/.claude.json",
        PROJECTS,
        [X, MCPServer("far", HTTP.command_or_url), MCPServer("all", "z")],
        2,
    ),
    ("Claude Code, project folder", "/p/.mcp.json", shared(**COMMAND, cwd="${CLAUDE_PROJECT_DIR:-.}"), [server(cwd="/p")], 0),
    ("VS Code", "/p/.vscode/mcp.json", VSCODE, [server(env={"PORT": "80"})], 0),
    ("VS Code settings", "s.json", json.dumps({"editor": 1, "mcp": {"inputs": [], "servers": {"x": COMMAND}}}), [X], 0),
    ("VS Code workspace", "a.code-workspace", json.dumps({"settings": {"mcp": {"servers": {"x": COMMAND}}}}), [X], 0),
    (
        "VS Code folders",
        "/p/.vscode/mcp.json",
        json.dumps({"servers": {"x": {**COMMAND, "cwd": "${workspaceFolder}/a", "env": {"N": "${workspaceFolderBasename}"}}}}),
        [server(cwd="/p/a", env={"N": "p"})],
        0,
    ),
    ("Cursor", "mcp.json", shared(**COMMAND, env={"A": "${env:B}"}), [server(env={"A": "${B}"})], 0),
    ("Cursor, transport", "mcp.json", shared(transport={"type": "http", **ADDRESS}), [HTTP], 0),
    ("Cursor, transport is a word", "mcp.json", shared(transport="streamable-http", **ADDRESS), [HTTP], 0),
    ("Windsurf", "mcp_config.json", shared(serverUrl=ADDRESS["url"], disabledTools=["a"]), [HTTP], 1),
    ("Windsurf, file", "m.json", shared(**COMMAND, env={"A": "${file:/run/a}"}), [server(env={"A": "${file:/run/a}"})], 0),
    ("Gemini", "s.json", shared(httpUrl=ADDRESS["url"], timeout=5000, trust=True), [remote(timeout=5.0)], 2),
    ("Gemini, bare", "s.json", shared(**COMMAND, env={"A": "$B"}, timeout=300), [server(env={"A": "${B}"}, timeout=0.3)], 1),
    ("Gemini, settings", "/h/.gemini/settings.json", shared(**COMMAND, timeout=900), [server(timeout=0.9)], 1),
    ("Gemini, header", "s.json", shared(**ADDRESS, headers={"A": "Bearer $B"}), [remote(headers={"A": "Bearer ${B}"})], 0),
    ("no Gemini", "m.json", shared(command="npx", args=["$B"]), [MCPServer("x", "npx", ["$B"])], 0),
    ("Gemini, lists", "s.json", GEMINI, [X], 2),
    (
        "Gemini, older lists",
        "s.json",
        json.dumps({"mcpServers": {"x": COMMAND, "y": COMMAND}, "allowMCPServers": ["x"]}),
        [X],
        1,
    ),
    ("milliseconds", "m.json", shared(**COMMAND, timeout=600000), [server(timeout=600.0)], 1),
    ("seconds above an hour", "m.json", shared(**COMMAND, timeout=7200), [server(timeout=7200)], 1),
    ("seconds as a text", "m.json", shared(**COMMAND, timeout="90"), [server(timeout=90)], 0),
    ("seconds", "m.json", shared(**COMMAND, timeout=3600), [server(timeout=3600)], 0),
    ("Cline", "/h/cline_mcp_settings.json", shared(**COMMAND, timeout=7200, autoApprove=[]), [server(timeout=7200)], 1),
    ("Cline, http", "m.json", shared(type="streamableHttp", **ADDRESS, disabled=False), [HTTP], 0),
    ("Roo Code", "m.json", shared(**COMMAND, timeout=7200, watchPaths=[], alwaysAllow=[]), [server(timeout=7200)], 2),
    ("Amp", "settings.json", json.dumps({"amp.mcpServers": {"x": COMMAND}, "amp.url": "u"}), [X], 0),
    (
        "Zed",
        "settings.json",
        json.dumps({"context_servers": {"x": {"source": "custom", **COMMAND, "timeout": 90}}}),
        [server(timeout=90)],
        0,
    ),
    (
        "Zed, older",
        "settings.json",
        json.dumps(
            {"context_servers": {"x": {"command": {"path": "npx", "args": ["-y", "x"], "env": {}}, "settings": {"arg": 1}}}}
        ),
        [X],
        0,
    ),
    ("Zed, newer extension", "s.json", json.dumps({"context_servers": {"x": {"enabled": True, "settings": {}}}}), [], 1),
    ("Zed, extension", "s.json", json.dumps({"context_servers": {"x": {"source": "extension", "settings": {"a": 1}}}}), [], 1),
    (
        "opencode",
        "opencode.jsonc",
        OPENCODE,
        [server(env={"A": "${B:-}"}, timeout=5.0), MCPServer("far", HTTP.command_or_url, timeout=30.0)],
        4,
    ),
    (
        "Codex",
        "config.toml",
        TOML,
        [
            server(env={"HOME": "${HOME}", "LANG": "${LANG}", "A": "b"}, timeout=90.5),
            MCPServer(
                "far",
                HTTP.command_or_url,
                headers={"Authorization": "Bearer ${TOKEN}", "X-C": "${VARIABLE}", "X-A": "b"},
            ),
        ],
        2,
    ),
    (
        "Mistral Vibe",
        "config.toml",
        '[[mcp_servers]]\nname = "x"\ntransport = "http"\nurl = "https://x.example.org/mcp"\napi_key_env = "KEY"\n',
        [remote(headers={"Authorization": "Bearer ${KEY}"})],
        0,
    ),
    (
        "Goose",
        "config.yaml",
        GOOSE,
        [server(env={"TOKEN": "${TOKEN}", "PORT": "80"}, timeout=300), MCPServer("far", HTTP.command_or_url, timeout=7200)],
        1,
    ),
    (
        "Continue",
        "config.yaml",
        CONTINUE,
        [MCPServer("My-Server", HTTP.command_or_url, headers={"Authorization": "Bearer ${TOKEN}"})],
        2,
    ),
    (
        "LibreChat",
        "librechat.yaml",
        "mcpServers:\n  x:\n    type: stdio\n    command: npx\n    args: [-y, x]\n    timeout: 500\n",
        [server(timeout=0.5)],
        1,
    ),
    ("older Continue", "config.json", OLDER_CONTINUE, [replace(X, name="server-1")], 1),
    ("YAML that repeats parts", "config.yaml", MERGED, [server(env={"A": "b"})], 0),
    ("server alone", "x.json", json.dumps(COMMAND | {"name": "x"}), [X], 0),
    ("address alone without a name", "x.json", json.dumps(ADDRESS), [replace(HTTP, name="server-1")], 1),
    ("list with other names", "x.json", json.dumps({"mcpServers": [{"id": "x", **COMMAND}]}), [X], 0),
    ("Cline, older", "cline_mcp_settings.json", shared(**COMMAND, transportType="stdio"), [X], 0),
    ("Kiro", "/h/.kiro/settings/mcp.json", shared(**COMMAND, timeout=3000), [server(timeout=3.0)], 1),
    (
        "GitHub Copilot",
        "m.json",
        shared(type="local", **COMMAND, env={"A": "$COPILOT_MCP_A"}),
        [server(env={"A": "${COPILOT_MCP_A}"})],
        0,
    ),
    ("Augment", "settings.json", json.dumps({"augment.advanced": {"mcpServers": [{"name": "x", **COMMAND}]}}), [X], 0),
    ("longer name than a setting", "m.json", shared(**COMMAND, sse_read_timeout=5), [X], 1),
    ("bare map", "mcp.json", json.dumps({"x": COMMAND, "far": ADDRESS}), [X, MCPServer("far", HTTP.command_or_url)], 0),
    ("part of a file", "part", f'"mcpServers": {json.dumps({"x": COMMAND})}', [X], 0),
    ("Crush", "crush.json", json.dumps({"mcp": {"x": {"type": "stdio", **COMMAND, "timeout": 120}}}), [server(timeout=120)], 0),
    (
        "GitHub",
        "a.json",
        shared(type="local", **COMMAND, env={"A": "COPILOT_MCP_A"}),
        [server(env={"A": "${COPILOT_MCP_A}"})],
        0,
    ),
    ("block of Continue", "config.yaml", "mcpServers:\n- uses: a/b\n- name: x\n  url: https://x.example.org/mcp\n", [HTTP], 2),
    (
        "names",
        "m.json",
        json.dumps({"mcpServers": {"@a/b c": {"command": "b"}, "天": {"command": "c"}}}),
        [MCPServer("a-b-c", "b"), MCPServer("server-2", "c")],
        2,
    ),
    (
        "several places",
        "a.json",
        json.dumps({"servers": {"y": {"command": "y"}}, "mcpServers": {"x": COMMAND}, "extensions": ["z"]}),
        [MCPServer("y", "y"), X],
        0,
    ),
    ("no file of variables", "mcp.json", shared(**COMMAND, envFile="${workspaceFolder}/missing.env"), [X], 1),
    ("words like settings", "m.json", shared(**COMMAND, isActive=True, baseUrl="", tags=[], arg=0), [X], 1),
    (
        "list without names",
        "agent.json",
        json.dumps({"servers": [{"type": "stdio", **COMMAND}]}),
        [replace(X, name="server-1")],
        1,
    ),
    ("folder of an editor", "/p/.gemini/settings.json", shared(**COMMAND, cwd="a"), [server(cwd="/p/a")], 0),
    ("older transport", "mcp.json", shared(type="sse", **ADDRESS), [HTTP], 0),
    ("agentnb", "mcp.json", shared(**COMMAND, max_seconds=1200), [server(max_seconds=1200)], 0),
    ("settings of a command only", "mcp.json", shared(**ADDRESS, env={"A": "b"}, args=["x"]), [HTTP], 2),
    ("settings of an address only", "mcp.json", shared(**COMMAND, headers={"A": "b"}), [X], 1),
)


def test_configuration_files_of_other_programs_are_read(subtests: pytest.Subtests) -> None:
    for case, file, text, servers, notes in READ:
        with subtests.test(case):
            configuration = read_servers(text, file, Path(file).parent if file.startswith("/") else None)
            assert [*configuration.servers] == servers
            assert len(configuration.notes) == notes, configuration.notes


def test_only_servers_of_the_current_project_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    projects = {str(tmp_path): {"mcpServers": {"x": COMMAND}}, "/h/q": {"mcpServers": {"q": {"command": "q"}}}}
    monkeypatch.chdir(tmp_path)
    assert [*read_servers(json.dumps({"projects": projects}), ".claude.json").servers] == [X]


SECRET = "tide-7f3a9b21c4"
REFUSED = {
    "input": shared(**COMMAND, env={"T": "${input:gh-token}"}),
    "input in a header": shared(**ADDRESS, headers={"Authorization": "Bearer ${input:gh}"}),
    "input beside a secret": shared(**ADDRESS, headers={"Authorization": f"{SECRET} ${{input:gh}} {SECRET}"}),
    "input in arguments": shared(command="npx", args=["--key", "${input:gh}"]),
    "command of an editor": shared(**COMMAND, env={"T": "${command:pick}"}),
    "plugin": shared(command="${CLAUDE_PLUGIN_ROOT}/x", args=["--c", "y"]),
    "plugin in arguments": shared(command="node", args=["${CLAUDE_PLUGIN_ROOT}/server.js"]),
    "extension": shared(command="node", args=["${extensionPath}/dist/server.js"]),
    "setting of a person": shared(**COMMAND, env={"T": "${user_config.api_key}"}),
    "value of each user": shared(**ADDRESS, headers={"X-A": "{{MY_KEY}}"}),
    "command of a shell": shared(**ADDRESS, headers={"X-A": f"$(echo {SECRET})"}),
    "input of Continue": "mcpServers:\n- name: x\n  command: npx\n  env:\n    T: ${{ inputs.TOKEN }}\n",
}


def test_unsupported_program_variables_are_refused_with_a_working_replacement(
    snapshot: Snapshot, subtests: pytest.Subtests
) -> None:
    for case, text in REFUSED.items():
        with subtests.test(case):
            with pytest.raises(SettingsError) as raised:
                read_servers(text, "mcp.json" if text.startswith("{") else "config.yaml")
            assert str(raised.value) == snapshot(case)
            assert SECRET not in str(raised.value)


KEYS = [*(name for _, names in SETTINGS.values() for name in names), *GROUPS, *NO_EFFECT, "path", "request", "uses", "other"]
ODD = [
    "",
    "x",
    "http://x/",
    "${A}",
    "${A:-b}",
    "${A:-${B:-c}}",
    "$A",
    "${input:x}",
    "${file:/x}",
    "stdio",
    "sse",
    "extension",
    "${",
    "\0",
]
LEAVES = st.one_of(st.sampled_from(ODD), st.none(), st.booleans(), st.integers(-5, 10**7), st.floats())
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3), max_leaves=6
)
FIELDS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6)
SERVERS = st.dictionaries(st.sampled_from(["a", "b c", ""]), FIELDS | VALUES, max_size=3) | st.lists(
    FIELDS | VALUES, max_size=3
)


@examples(10_000)
@given(st.sampled_from([*PLACES]), SERVERS, st.sampled_from(["a.json", ".mcp.json"]))
def test_any_configuration_is_either_read_or_refused(place: tuple[str, ...], servers: Any, name: str) -> None:
    document = servers
    for key in reversed(place):
        document = {key: document}
    with suppress(SettingsError):
        configuration = read_servers(json.dumps(document), name)
        assert describe_servers(name, configuration) and len({server.identity for server in configuration.servers}) <= len(
            configuration.servers
        )
        for server in configuration.servers:
            expand_variables(server, {"A": "1"})


WORDS = st.text(st.sampled_from("abz09-_./"), min_size=1, max_size=8).map(lambda text: f"{SECRET}{text}")
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(["plain", "Bearer ", "/path ", "$"]),
        st.builds("${{A:-{}}}".format, WORDS),
        st.builds("${{env:B:-{}}}".format, WORDS),
        st.builds("${{A:-${{B:-{}}}}}".format, WORDS),
        st.just("${C}"),
    ),
    max_size=4,
).map("".join)


@examples(5_000)
@given(st.lists(TEXTS, max_size=3), st.dictionaries(st.sampled_from("TUV"), st.one_of(TEXTS, WORDS)), TEXTS)
def test_error_messages_hide_values_and_defaults_of_a_file(args: list[str], env: dict[str, str], query: str) -> None:
    text = json.dumps({"servers": {"x": {"command": "npx", "args": args, "env": env}, "y": {**ADDRESS, "headers": env}}})
    asked = json.dumps(
        {"servers": {"x": {"url": f"https://x.example.org/mcp?{query}", "args": args, "env": {"A": "${input:x}"}}}}
    )
    seen = []
    for one in (text, asked):
        try:
            configuration = read_servers(one, "mcp.json")
        except SettingsError as error:
            seen.append(f"{error!r} {error} {error.__context__!r}")
            continue
        seen += [
            describe_servers("mcp.json", configuration),
            repr(configuration),
            *(json.dumps(server.as_logged) for server in configuration.servers),
        ]
        for each in configuration.servers:
            hidden = [*secrets(each), *secrets(expand_variables(each, {"C": f"{SECRET}c"}))]
            texts = (*each.args, *each.env.values(), *each.headers.values())
            assert not any(SECRET in one for one in texts) or any(SECRET in one for one in hidden)
    assert all(SECRET not in text for text in seen)


def test_env_file_is_read_from_the_workspace_folder(tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    (tmp_path / "my.env").write_text(f"# comment\nexport A='{SECRET} x'\nB = \"b\"\nC=c=d # no comment\n\nE=\nnothing\n")
    fields = {**COMMAND, "envFile": "${workspaceFolder}/my.env", "env": {"B": "own"}}
    configuration = read_servers(json.dumps({"servers": {"x": fields}}), "mcp.json", tmp_path / ".vscode")
    assert [*configuration.servers] == [server(env={"A": f"{SECRET} x", "B": "own", "C": "c=d # no comment", "E": ""})]
    assert "A, B, C, E" in configuration.notes[0] and SECRET not in describe_servers("mcp.json", configuration)
    assert SECRET in "".join(secrets(configuration.servers[0]))


def test_file_reference_is_read_when_the_server_starts(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{SECRET}\n")
    text = json.dumps({"mcp": {"x": {"type": "remote", **ADDRESS, "headers": {"A": "Bearer {file:key}", "B": "{file:~/no}"}}}})
    (configuration,) = read_servers(text, "opencode.json", tmp_path).servers
    assert configuration.headers == {"A": f"Bearer ${{file:{tmp_path}/key}}", "B": f"${{file:{Path.home()}/no}}"}
    assert values(configuration) == {f"file:{tmp_path}/key": SECRET}
    with pytest.raises(SettingsError, match=r"needs the file .*/no, which cannot be read"):
        expand_variables(configuration, values(configuration))
    (tmp_path / "key").unlink()
    assert values(configuration) == {}
