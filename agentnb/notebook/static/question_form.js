// The forms of a question in a live card: what they send, what was typed when they are drawn again, where a refusal is said.
// Nothing is read or checked here: the kernel gets texts, by the places of their fields, and says what does not fit.

/** What a form sends; nothing while its one field is empty. */
function messageOf(form) {
  const { text, rule, calls, reach } = form.elements;
  if (form.dataset.do === "form" || form.dataset.do === "step") {
    // Only what was typed into: a field of a page keeps not every character of a value.
    const typed = [...form.querySelectorAll("[data-field][data-typed]")].map((field) => [field.name, typedTextOf(field)]);
    const many = [...form.querySelectorAll("[data-many]")].filter((one) => one.querySelector("[data-typed]"));
    const fields = [...typed, ...many.map((one) => [one.dataset.many, chosenIn(one)])];
    return form.dataset.do === "form" ? { do: "form", fields } : { do: "step", fields, place: Number(form.dataset.place) };
  }
  if (form.dataset.do === "always") return { do: "always", rule: calls.value || rule.value.trim(), reach: reach.value };
  const typed = text.value.trim();
  return typed || form.dataset.do === "reject" ? { do: form.dataset.do, text: typed } : null;
}

/** What stands in a field; of a box whether it is checked. */
function typedTextOf(field) {
  return field.type === "checkbox" && !field.checked ? "" : field.value;
}

/** The choices whose boxes are checked, as a list of JSON; each is JSON already. */
function chosenIn(place) {
  return `[${[...place.querySelectorAll("input:checked")].map((box) => box.value).join(",")}]`;
}

/** Remember that a field was typed into. */
function typedInto(field) {
  if (!field.name || !field.form?.dataset.id) return;
  field.dataset.typed = "";
  if (field.form.dataset.do === "always") chosen(field.form);
}

/** Show the sentence for the chosen calls and reach, and a field for a pattern of the person's own. */
function chosen(form) {
  const { calls, reach, rule } = form.elements;
  const sentences = [...form.querySelectorAll("[data-reach]")];
  const offered = sentences.filter((one) => one.dataset.calls === calls.value).map((one) => one.dataset.reach);
  for (const option of reach.options) option.disabled = !offered.includes(option.value);
  if (!offered.includes(reach.value)) reach.value = offered[0];
  for (const one of sentences) one.hidden = one.dataset.calls !== calls.value || one.dataset.reach !== reach.value;
  if (rule) rule.hidden = Boolean(calls.value);
}

/** What the person has typed into the forms of a place, and what was said about it. */
function typedIn(place) {
  const forms = [...place.querySelectorAll("form[data-id]")];
  return forms.map((form) => ({
    form: formName(form),
    values: [...form.elements].filter((one) => one.name && "typed" in one.dataset).map((one) => [one.dataset.key, one.name, one.value, one.checked]),
    errors: [...form.querySelectorAll(".agentnb-field-error")].map((one) => [one.dataset.for, one.textContent]),
  }));
}

/** Put back what was typed before a place was drawn again. */
function typeAgain(place, kept) {
  for (const { form: name, values, errors } of kept) {
    const form = [...place.querySelectorAll("form[data-id]")].find((one) => formName(one) === name);
    if (!form) continue;
    for (const [key, field, value, isChecked] of values) {
      const again = [...form.elements].find((one) => one.name === field && one.dataset.key === key);
      if (!again) continue;
      if (again.type === "checkbox") again.checked = isChecked;
      else again.value = value;
      typedInto(again);
    }
    for (const [key, words] of errors) {
      const error = [...form.querySelectorAll(".agentnb-field-error")].find((one) => one.dataset.for === key);
      if (error && words) set(error, words);
    }
  }
}

/** The form of a step in which something stands that was not saved. */
function unsavedIn(place) {
  const forms = [...(place?.querySelectorAll("form[data-do=step]") ?? [])];
  return forms.find((form) => [...form.elements].some((one) => "typed" in one.dataset && isChanged(one)));
}

function isChanged(field) {
  if (field.type === "checkbox") return field.checked !== field.defaultChecked;
  if (field.tagName === "SELECT") return ![...field.selectedOptions].every((one) => one.defaultSelected);
  return field.value !== field.defaultValue;
}

function formName(form) {
  const { id, do: action } = form.dataset;
  return [id, action, form.querySelector("[data-key]")?.dataset.key].join("\n");
}

/** Say why what was sent is refused: at each field, else once; and whether there is a place to say it. */
function sayRefused(form, error, fields) {
  const places = [...form.querySelectorAll(".agentnb-field-error")];
  if (!places.length) return false;
  const words = new Map(Object.entries(fields ?? {}));
  const general = places.find((one) => !one.dataset.for) ?? places[0];
  for (const place of places) set(place, words.get(place.dataset.for ?? "") ?? "");
  if (error && !words.size) set(general, error);
  const controls = [...form.elements].filter((one) => one.name);
  const isWrong = (one) => Boolean(error) && (words.size ? words.has(one.name) : !("field" in one.dataset));
  for (const one of controls) one.toggleAttribute("aria-invalid", isWrong(one));
  if (error) (controls.find(isWrong) ?? controls[0])?.focus();
  return true;
}

/** Say at the step of a draft why its change was refused, and whether there is a place to say it; no other step says anything then. */
function sayAtStep(button, error) {
  const place = button?.dataset.do === "draft" && button.closest("[data-row]")?.querySelector("[data-refused]");
  if (!place) return false;
  for (const other of button.closest(".agentnb-question").querySelectorAll("[data-refused]")) set(other, other === place ? error : "");
  return true;
}

/** Enter sends what has one field; in a form of several it is a line break in a text area, and sends with Ctrl. Escape closes. */
function questionKey(event) {
  const { target } = event;
  const isForm = ["form", "step"].includes(target.form?.dataset.do);
  const sends = event.key === "Enter" && (isForm ? event.ctrlKey || event.metaKey : !event.shiftKey);
  if (target.matches("textarea") && sends) {
    event.preventDefault();
    target.form.requestSubmit();
  }
  const fold = event.key === "Escape" && target.closest(".agentnb-panel[open], .agentnb-draft-edit[open]");
  if (!fold) return;
  event.preventDefault();
  const opener = openerOf(fold) ?? fold.querySelector("summary");
  opener.focus();
  opener.click();
}

/** The button in the row of answers that opens a fold. */
function openerOf(fold) {
  return fold.closest(".agentnb-question")?.querySelector(`[data-opens="${CSS.escape(fold.dataset.fold ?? "")}"]`);
}

/** Where the caret stands in a field, if it has one. */
function caretOf(field) {
  try {
    return typeof field.selectionStart === "number" ? [field.selectionStart, field.selectionEnd] : null;
  } catch {
    return null;
  }
}
