"""Every part of an address that may be a secret is hidden."""

import time

import pytest

from annulus_lab.pipeline.redaction import environment_secrets, redacted


@pytest.mark.parametrize(
    ("address", "text", "expected"),
    [
        ("http://host:5000/a/b", "http://host:5000/a/b did not answer", "http://host:5000/a/b did not answer"),
        ("http://me:pass@host/", "http://me:pass@host/ failed", "http://***@host/ failed"),
        ("https://host/?token=SECRET", "https://host/?token=SECRET failed", "https://host/?*** failed"),
        ("https://host/#SECRET", "https://host/#SECRET", "https://host/?***"),
        ("https://host/?token=SECRET", "url: /?token=SECRET&name=a (refused)", "url: /?*** (refused)"),
        ("https://host/?token=SECRET", "SECRET is no token", "*** is no token"),
        ("https://host/?ssl=1&a%20b=two%20words", "1 of two words, two%20words, two+words", "1 of ***, ***, ***"),
        ("https://host/?a=p@ss", "https://host/?a=p@ss", "https://***"),
        ("https://me:pa#ss@host", "https://me:pa#ss@host", "https://***"),
        ("https://me:pa/ss@host", "https://me:pa/ss@host/api", "https://***@host/api"),
        ("http:/me:pass@host", "http:/me:pass@host is no address; pass", "http:/***@host is no address; ***"),
        ("me:pass@host", "me:pass@host is no address", "***@host is no address"),
        ("sqlite:///runs.db", "postgresql://me:pass@host/runs?sslpassword=x", "postgresql://***@host/runs?***"),
    ],
)
def test_what_is_shown_of_an_address_and_of_a_text_that_repeats_it(address, text, expected):
    assert redacted(text, address) == expected


HOSTILE = [
    "x" * 100_000,
    "a:/" * 50_000,
    "?#" * 50_000,
    "://" * 50_000,
    "basic " * 30_000 + " " * 50_000,
    "@" * 100_000,
]


@pytest.mark.parametrize("answer", HOSTILE, ids=lambda answer: answer[:6])
def test_a_long_answer_of_a_server_takes_no_time(answer):
    begun = time.process_time()
    redacted(answer, "http://host?token=SECRET", frozenset({"another"}))
    assert time.process_time() - begun < 2


def test_a_token_that_a_server_repeats_is_not_shown_in_any_encoding():
    secrets = environment_secrets(
        {"MLFLOW_TRACKING_TOKEN": "to/ken", "DATABRICKS_TOKEN": "other", "SHORT_KEY": "abc", "HOME": "home"}
        | {"AWS_SECRET_ACCESS_KEY": "another one"}  # contains "other"
    )
    answer = "to/ken and to%2Fken of other and another one are not allowed: abc home, "
    answer += "Authorization: Basic bWU6cGFzcw==, Bearer x.y-z"
    expected = "*** and *** of *** and *** are not allowed: abc home, Authorization: Basic ***, Bearer ***"
    assert redacted(answer, "http://host", secrets) == expected
