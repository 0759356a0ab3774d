// The step rows of a mission: inputs by command type, add, remove and reorder rows. Without it the form works by numbers.

const read = (id) => JSON.parse(document.getElementById(id).textContent);
const choices = read("mission-choices");
const form = document.getElementById("mission_form");
const list = document.getElementById("steps");
const template = document.getElementById("step-template");
const total = form.elements["steps-TOTAL_FORMS"];
const site = form.elements.site;
const robot = form.elements.robot;
const add = document.getElementById("add-step");

const part = (row, name) => row.querySelector(`[name$="-${name}"]`);
const everyRow = () => [...list.querySelectorAll("[data-step]")];
const rows = () => everyRow().filter((row) => !row.hidden);
const placesHere = () => choices.places[site.value] ?? [];

function fitInputs(row) {
  const type = choices.types[part(row, "command").value];
  for (const label of row.querySelectorAll("[data-input]")) {
    const spec = type?.inputs[label.dataset.input];
    const input = label.querySelector("input, textarea");
    label.hidden = !spec;
    input.disabled = !spec; // what does not belong to the type is not sent
    input.required = Boolean(spec?.required);
    input.title = spec?.help ?? "";
  }
  const timeout = part(row, "timeout_s");
  timeout.placeholder = type ? String(type.timeout_s) : "";
  timeout.closest("label").hidden = !type;
  checkPlace(row);
}

function checkPlace(row) {
  const input = part(row, "place");
  const unknown = !input.disabled && input.value && site.value && !placesHere().includes(input.value);
  input.setCustomValidity(unknown ? `${input.value} is no place of this site. Choose one of the list.` : "");
}

function fitRobot() {
  const can = choices.robots[robot.value]?.can;
  for (const row of everyRow()) {
    for (const option of part(row, "command").options) {
      option.disabled = Boolean(can && option.value && !can.includes(option.value));
    }
  }
}

function fitSite() {
  for (const option of robot.options) {
    const known = choices.robots[option.value];
    option.hidden = option.disabled = Boolean(site.value && known && String(known.site) !== site.value);
  }
  if (robot.selectedOptions[0]?.disabled) robot.value = "";
  const options = placesHere().map((name) => Object.assign(document.createElement("option"), { value: name }));
  if (site.value) document.getElementById("places").replaceChildren(...options);
  everyRow().forEach(checkPlace);
  fitRobot();
}

function renumber() {
  const shown = rows();
  shown.forEach((row, i) => {
    row.querySelector(".step-number").textContent = i + 1;
    part(row, "ORDER").value = i + 1;
    row.querySelector('[data-move="-1"]').disabled = i === 0;
    row.querySelector('[data-move="1"]').disabled = i === shown.length - 1;
  });
  add.disabled = shown.length >= choices.max_steps;
}

function prepare(row) {
  row.querySelectorAll("[data-plain]").forEach((element) => (element.hidden = true));
  row.querySelectorAll("button[hidden]").forEach((button) => (button.hidden = false));
  fitInputs(row);
}

function drop(row) {
  row.hidden = true;
  for (const input of row.querySelectorAll("input, select, textarea")) input.disabled = true; // only the mark is sent
  Object.assign(part(row, "DELETE"), { checked: true, disabled: false });
}

function addRow() {
  const holder = document.createElement("template");
  holder.innerHTML = template.innerHTML.replaceAll("__prefix__", total.value);
  const row = holder.content.querySelector("[data-step]");
  list.append(row);
  total.value = Number(total.value) + 1;
  prepare(row);
  fitRobot();
  renumber();
  return row;
}

function removeRow(row) {
  const shown = rows();
  const neighbour = shown[shown.indexOf(row) + 1] ?? shown[shown.indexOf(row) - 1];
  drop(row);
  (neighbour ?? addRow()).querySelector("select").focus();
  renumber();
}

function moveRow(row, by) {
  const shown = rows();
  const other = shown[shown.indexOf(row) + by];
  if (other) by < 0 ? other.before(row) : other.after(row);
  renumber();
}

list.addEventListener("change", (event) => {
  if (event.target.name.endsWith("-command")) fitInputs(event.target.closest("[data-step]"));
});
list.addEventListener("input", (event) => checkPlace(event.target.closest("[data-step]")));
list.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  const row = button?.closest("[data-step]");
  if (!row) return;
  if (button.dataset.move) {
    moveRow(row, Number(button.dataset.move));
    (button.disabled ? row.querySelector("[data-move]:not(:disabled)") : button)?.focus();
  } else removeRow(row);
});
add.addEventListener("click", () => addRow().querySelector("select").focus());
site.addEventListener("change", fitSite);
robot.addEventListener("change", () => {
  const known = choices.robots[robot.value];
  if (known && !site.value) {
    site.value = known.site;
    fitSite();
  }
  fitRobot();
});
form.addEventListener("submit", (event) => {
  if (form.dataset.sent) event.preventDefault(); // a double click draws up one mission
  form.dataset.sent = "1";
});
window.addEventListener("pageshow", () => delete form.dataset.sent);

add.hidden = false;
form.querySelectorAll("[data-plain]").forEach((element) => (element.hidden = true));
const place = (row) => Number(part(row, "ORDER").value) || Infinity;
for (const row of everyRow().sort((a, b) => (place(a) === place(b) ? 0 : place(a) - place(b)))) {
  list.append(row);
  prepare(row);
  const spare = !part(row, "command").value && !row.querySelector(".errorlist"); // for those without a script
  if (spare || part(row, "DELETE").checked) drop(row);
}
if (!rows().length) addRow();
fitSite();
renumber();
