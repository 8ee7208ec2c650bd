"""Options after ``?`` in the name of a model."""

from __future__ import annotations

import traceback
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples, size

from agentnb.errors import SettingsError
from agentnb.models import RemoteModel, make_model
from agentnb.models.options import EFFORTS, Options, format_options
from agentnb.models.prices import Price
from agentnb.models.registry import REMOTE
from agentnb.settings import base_url

SECRET = "sk-ant-never-to-be-seen-0123456789"
HERE = "url=http://localhost:8000/v1"
ALL = sorted({option for provider in REMOTE.values() for option in provider.options})


def options(given: str, provider: str = "anthropic") -> Options:
    """Return the options of a local model, which needs no key, with this text after ``?``."""
    model = make_model(f"{provider}:m-1?{given}" + ("" if "url=" in given else f"&{HERE}"))
    assert isinstance(model, RemoteModel)
    return model.options


def refusal(given: str, provider: str = "anthropic") -> str:
    with pytest.raises(SettingsError) as caught:
        make_model(f"{provider}:m-1?{given}")
    return str(caught.value)


READ: list[tuple[str, str, str, Any]] = [
    ("anthropic", "max_tokens=100", "max_tokens", 100),
    ("openai", "temperature=0.7", "temperature", 0.7),
    ("openai", "temperature=0", "temperature", 0.0),
    ("openai", "seed=3", "seed", 3),
    ("anthropic", "effort=high", "effort", "high"),
    ("anthropic", "thinking=off", "thinking", "off"),
    ("anthropic", "thinking=adaptive", "thinking", "adaptive"),
    ("anthropic", "thinking=2000", "thinking", "2000"),
    ("anthropic", "stop=END", "stop", ("END",)),
    ("anthropic", "stop=END&stop=a%26b%20c", "stop", ("END", "a&b c")),
    ("compatible", "echo=yes", "echo", True),
    ("anthropic", "parallel=no", "parallel", False),
    ("anthropic", "cache=1h", "cache", "1h"),
    ("anthropic", "stream=no", "stream", False),
    ("anthropic", "stream=FALSE", "stream", False),
    ("anthropic", "images=1", "images", True),
    ("anthropic", "retries=0", "retries", 0),
    ("compatible", "alternating=yes", "alternating", True),
    ("compatible", "system=user", "system", "user"),
    ("compatible", "tools=no", "tools", False),
    ("openai", "stream_options=no", "stream_options", False),
    ("mistral", "length_limit=max_completion_tokens", "length_limit", "max_completion_tokens"),
    ("ollama", "think_tags=yes", "think_tags", True),
    ("anthropic", "timeout=2.5", "timeout", 2.5),
    ("anthropic", "stall=0.5", "stall", 0.5),
    ("anthropic", "url=https://gateway.example.org/a", "url", "https://gateway.example.org/a"),
    ("openai", "key=MY_KEY", "key", "MY_KEY"),
    ("openai", "price=3/15", "price", Price(Decimal(3), Decimal(15))),
    ("openai", "price=0", "price", Price(Decimal(0), Decimal(0))),
]


def test_each_option_survives_parsing_and_formatting(subtests: pytest.Subtests) -> None:
    for provider, written, name, value in READ:
        with subtests.test(f"{provider} {written}"), pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setenv("MY_KEY", SECRET)
            monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
            read = options(written, provider)
            assert getattr(read, name) == value
            model = make_model(f"{provider}:m-1{format_options(read)}")
            assert isinstance(model, RemoteModel) and model.options == read
            assert model.name == f"{provider}:m-1{format_options(read)}"


def test_every_option_of_every_provider_is_tested() -> None:
    assert {name for _, _, name, _ in READ} == set(ALL)


def test_default_options_are_omitted_from_the_name() -> None:
    assert format_options(Options()) == "" == format_options(Options(output_schema={"type": "object"}))
    assert format_options(Options(cache="5m", stream=True, timeout=300)) == ""
    assert format_options(Options(stream=False, max_tokens=9, timeout=60.0)) == "?max_tokens=9&stream=no&timeout=60"


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10)
some = st.fixed_dictionaries(
    {},
    optional={
        "max_tokens": st.integers(1, 10**9),
        "temperature": st.floats(0, 2),
        "effort": st.sampled_from(EFFORTS),
        "stop": st.lists(texts, min_size=1, max_size=3).map(tuple),
        "parallel": st.booleans(),
        "stream": st.booleans(),
        "images": st.booleans(),
        "timeout": st.floats(0.001, 1e9),
    },
)


@examples(200)
@given(some)
def test_name_with_any_options_recreates_the_model(given: dict[str, Any]) -> None:
    made = Options(url="http://[::1]:8000/v1/a,b", **given)
    model = make_model(f"openai:m{format_options(made)}")
    assert isinstance(model, RemoteModel) and model.options == made


REFUSALS = [
    ("speed=1", "anthropic:m-1 has no option 'speed'. Its options are cache, effort, images"),
    ("temperature=1", "anthropic:m-1 has no option 'temperature'."),
    ("max_token=1", "Its options are cache, effort, images, key, max_tokens,"),
    ("max_tokens=many", "max_tokens=many of anthropic:m-1 must be a number"),
    ("max_tokens=1.5", "max_tokens=1.5 of anthropic:m-1 must be a number"),
    ("max_tokens=0", "max_tokens=0 is out of range. Use a finite number of at least 1"),
    ("max_tokens=-5", "max_tokens=-5 is out of range"),
    ("timeout=0", "timeout=0.0 is out of range"),
    ("timeout=nan", "timeout=nan is out of range"),
    ("timeout=inf", "timeout=inf is out of range"),
    ("timeout=soon", "must be a number"),
    ("stream=perhaps", "stream=perhaps of anthropic:m-1 must be yes or no"),
    ("stream=", "stream= of anthropic:m-1 must be yes or no"),
    ("effort=huge", f"effort=huge is unknown. Use one of {', '.join(EFFORTS)}"),
    ("cache=2h", "cache=2h is unknown. Use one of 5m, 1h, no"),
    ("thinking=on", "thinking=on is unknown. Use off, adaptive or a number of tokens"),
    ("thinking=0", "thinking=0 is unknown"),
    ("thinking=٣", "is unknown"),
    ("stop=", "stop= is empty"),
    ("price=cheap", "price=cheap is not a price"),
    ("url=localhost:8000", "url=localhost:8000 is not a server URL. A server URL begins with http://"),
    ("url=ftp://localhost", "is not a server URL"),
    ("url=http://", "is not a server URL"),
    ("url=http://localhost:0", "is not a server URL"),
    ("url=http://local%20host", "is not a server URL"),
    ("url=http://localhost%0a/", "is not a server URL"),
    ("url=http://localhost:port", "url= is not a URL"),
    ("url=http://localhost:99999", "url= is not a URL"),
    ("url=http://[::1", "url= is not a URL"),
    ("url=http://localhost/v1%3Fapi-key=1", "without ? or #"),
    ("url=http://localhost/v1%23a", "without ? or #"),
    (
        "key=my_key",
        'key= takes the name of a variable, not a key. Write key=MY_KEY and set the variable: os.environ["MY_KEY"] = ...',
    ),
]


def test_invalid_option_error_names_valid_values(subtests: pytest.Subtests) -> None:
    for written, told in REFUSALS:
        with subtests.test(written):
            assert told in refusal(written)


def test_temperature_must_be_0_or_more() -> None:
    for wrong in ("-1", "nan", "inf"):
        assert "temperature=" in refusal(f"temperature={wrong}", "openai")


def test_errors_never_repeat_a_possible_key(subtests: pytest.Subtests) -> None:
    values = (SECRET, f"http://me:{SECRET}@localhost/v1", f"http://localhost/v1?key={SECRET}", f"{SECRET}@localhost")
    options = [option for option in (*ALL, SECRET, "api_key") if option != "stop"]  # any text can be one
    for option, provider, value in [*product(options, REMOTE, values)][:: size(3, nightly=1)]:
        with subtests.test(option, provider=provider, value=value):
            with pytest.raises(SettingsError) as caught:
                make_model(f"{provider}:m-1?{option}={value}")
            told = "".join(traceback.format_exception(caught.value, chain=True)) + repr(caught.value)
            assert "never-to-be-seen" not in told


def test_url_with_a_password_is_refused_with_an_alternative() -> None:
    told = refusal("url=https://me:secret@example.org/v1")
    assert "must not contain a password" in told and 'os.environ["MY_KEY"]' in told and "secret" not in told
    assert "must not contain a password" in refusal("url=https://me@example.org/v1")


def test_long_invalid_value_is_not_repeated() -> None:
    assert len(refusal("max_tokens=" + "9" * 5000)) < 200
    assert len(refusal("price=" + "9" * 5000)) < 200


def test_each_provider_accepts_only_its_own_options(subtests: pytest.Subtests) -> None:
    for provider in REMOTE:
        with subtests.test(provider):
            for option in set(ALL) - REMOTE[provider].options:
                assert f"has no option '{option}'" in refusal(f"{option}=1", provider)


def test_environment_url_with_a_secret_is_refused_without_repeating_it(subtests: pytest.Subtests) -> None:
    cases = [
        ("anthropic", "ANTHROPIC_BASE_URL"),
        ("openai", "OPENAI_BASE_URL"),
        ("compatible", "AGENTNB_COMPATIBLE_URL"),
        ("ollama", "OLLAMA_HOST"),
    ]
    others = [
        ("https://me:never@example.org/v1", "must not contain a password"),
        ("https://never@example.org/v1", "must not contain a password"),
        ("https://example.org/v1?key=never", "without ? or #"),
        ("https://example.org/v1#never", "without ? or #"),
        ("https://me:never@example.org:port/v1", "is not a URL"),
    ]
    for (provider, variable), (url, told) in product(cases, others):
        with subtests.test(provider=provider, url=url), pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setenv(variable, url)
            with pytest.raises(SettingsError) as caught:
                base_url(provider)
            assert str(caught.value).startswith(variable) and told in str(caught.value)
            assert "never" not in "".join(traceback.format_exception(caught.value, chain=True))
