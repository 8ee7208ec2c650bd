"""Unambiguous replies to a draft: messages that amount to a yes or a no, in the languages of `LANGUAGES`."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, NamedTuple, TypeAlias

Word: TypeAlias = Literal["yes", "no", ""]
"""Meaning of a message; empty if it is neither a clear yes nor a clear no."""


class _Language(NamedTuple):
    """Phrases of a language, without accents and apostrophes, separated by bars. ``*`` stands for each word in ``it``."""

    it: str
    polite: str
    yes: str
    run: str
    no: str
    stop: str


LANGUAGES = {
    "English": _Language(
        it="it|this|that|the plan|this plan|the draft|this draft",
        polite="please|thanks|thank you",
        yes="yes|yeah|yep|yup|y|ok|okay|sure|of course|certainly|absolutely|definitely",
        run="run *|run * now|execute *|start *|do *|approve *|approve|approved|i approve|i approve *|agreed|i agree|confirmed|"
        "go|go ahead|go for it|proceed|looks good|sounds good|lgtm",
        no="no|nope|nah|n|never",
        stop="stop|stop *|do not|dont|do not run *|dont run *|do not execute *|dont execute *|do not start *|dont start *|"
        "do not do *|dont do *|do not proceed|dont proceed|cancel|cancel *|reject|reject *|rejected|decline|decline *|declined|"
        "discard *|drop *|abort|never mind|nevermind|forget *|forget about *",
    ),
    "German": _Language(
        it="es|das|ihn|den plan|diesen plan|den entwurf|diesen entwurf",
        polite="bitte|danke|danke schon",
        yes="ja|jawohl|jep|klar|na klar|ok|okay|gern|gerne|naturlich|sicher|auf jeden fall",
        run="mach *|fuhre * aus|fuhr * aus|* ausfuhren|ausfuhren|starte *|los|los gehts|leg los|nur zu|einverstanden|"
        "in ordnung|passt|genehmigt|freigegeben|bestatigt",
        no="nein|nee|ne|niemals",
        stop="stopp|stop|halt|nicht ausfuhren|* nicht ausfuhren|fuhre * nicht aus|fuhr * nicht aus|mach * nicht|starte * nicht|"
        "tu * nicht|lass *|abbrechen|brich ab|brich * ab|verwirf *|abgelehnt|auf keinen fall|lieber nicht|vergiss *",
    ),
    "French": _Language(
        it="le|ca|cela|le plan|ce plan|le brouillon",
        polite="merci|sil te plait|sil vous plait|stp|svp",
        yes="oui|ouais|ok|daccord|bien sur|entendu|parfait|absolument|certainement",
        run="lance *|lancez *|execute *|executez *|fais *|faites *|demarre *|vas y|allez y|approuve|japprouve|je confirme|"
        "cest bon|ca marche",
        no="non|jamais",
        stop="stop|arrete|arretez|ne lance pas *|ne lancez pas *|ne * lance pas|ne * lancez pas|ne * execute pas|"
        "nexecute pas *|ne * fais pas|ne fais pas *|annule|annulez|annule *|annulez *|refuse|je refuse|rejete|surtout pas|"
        "pas du tout|laisse tomber|oublie *",
    ),
    "Spanish": _Language(
        it="esto|eso|el plan|este plan|el borrador",
        polite="por favor|gracias|muchas gracias",
        yes="si|claro|vale|ok|de acuerdo|por supuesto|desde luego|claro que si|perfecto",
        run="ejecutalo|ejecuta *|ejecute *|hazlo|hagalo|haz *|adelante|dale|procede|proceda|aprobado|lo apruebo|apruebo *|"
        "confirmado|esta bien",
        no="no|nunca",
        stop="para|alto|detente|no lo ejecutes|no lo ejecute|no ejecutes *|no ejecute *|no lo hagas|no lo haga|no hagas *|"
        "cancela|cancelalo|cancela *|rechazado|lo rechazo|rechazo *|descartalo|de ninguna manera|olvidalo",
    ),
}
"""Only messages made up entirely of these phrases count. Any other message, or a mix of yes and no, leads to a question."""
MAX_OF_A_MESSAGE = 200
"""Maximum number of characters in a message to be considered; a clear one is short."""
_APOSTROPHES = str.maketrans(dict.fromkeys("'`\u00b4\u2018\u2019\u02bc"))
_CLAUSES = re.compile(r"[.,;:!¡…\n]|\s[-\u2013\u2014]+\s")
_BLANKS = re.compile(r"[\s-]+")


def clear_word(text: str) -> Word:
    """Return ``yes`` or ``no`` if every clause of a message has that meaning, otherwise an empty string."""
    if len(text) > MAX_OF_A_MESSAGE:
        return ""
    clauses = [clause for part in _CLAUSES.split(_plain(text)) if (clause := _POLITE.sub("", _blanks(part)).strip())]
    for word, pattern in _CLEAR.items():
        if clauses and all(pattern.fullmatch(_blanks(clause)) for clause in clauses):
            return word
    return ""


def _plain(text: str) -> str:
    """Return the text in lower case, without accents or apostrophes."""
    letters = unicodedata.normalize("NFKD", text.translate(_APOSTROPHES)).casefold()
    return "".join([letter for letter in letters if not unicodedata.combining(letter)])


def _blanks(text: str) -> str:
    return _BLANKS.sub(" ", text).strip()


def _any_of(*fields: str) -> str:
    """Return a pattern for the phrases in these fields across all languages, with ``*`` expanded."""
    phrases = {
        phrase.replace("*", it)
        for language in LANGUAGES.values()
        for field in fields
        for phrase in getattr(language, field).split("|")
        for it in language.it.split("|")
    }
    return "|".join(map(re.escape, sorted(phrases, reverse=True)))  # a longer phrase before its prefix


def _clear(opening: str, action: str) -> re.Pattern[str]:
    """Return a pattern for a clause: optional openings, then an action; at least one of the two must be present."""
    first = _any_of(opening)
    return re.compile(f"(?:(?:{first}) )*(?:{first}|{_any_of(action)})")


_POLITE = re.compile(rf"\b(?:{_any_of('polite')})\b")
_CLEAR: dict[Word, re.Pattern[str]] = {"yes": _clear("yes", "run"), "no": _clear("no", "stop")}
