// The step rows of a mission: inputs by command type; add, duplicate, remove and reorder. Without it the form works by numbers.
import { fitPolicy, sayPolicy, usualTimes } from "./step_policy.js";
import { watchOrder } from "./reorder.js";
import { startChecking } from "./mission_check.js";

const choices = JSON.parse(document.getElementById("mission-choices").textContent);
for (const one of Object.values(choices.robots)) Object.assign(one, choices.kinds[one.kind]);
const form = document.getElementById("mission_form");
const list = document.getElementById("steps");
const template = document.getElementById("step-template");
const total = form.elements["steps-TOTAL_FORMS"];
const site = form.elements.site;
const robot = form.elements.robot; // a template has none
const add = document.getElementById("add-step");
const news = document.getElementById("step-news");

const part = (row, name) => row.querySelector(`[name$="-${name}"]`);
const everyRow = () => [...list.querySelectorAll("[data-step]")];
const rows = () => everyRow().filter((row) => !row.hidden);
const rowOf = (element) => element.closest("[data-step]");
const numberOf = (row) => rows().indexOf(row) + 1;
const nameOf = (row) => choices.types[part(row, "command").value]?.label ?? "Step";
const tell = (words) => (news.textContent = words);
const tellPlace = (row) => tell(`${nameOf(row)} is now step ${numberOf(row)} of ${rows().length}.`);

function fitInputs(row) {
  const type = choices.types[part(row, "command").value];
  for (const holder of row.querySelectorAll("[data-input]")) {
    const spec = type?.inputs[holder.dataset.input];
    const input = holder.querySelector("input, textarea");
    holder.hidden = !spec;
    input.disabled = !spec; // what does not belong to the type is not sent
    input.title = spec?.help ?? "";
    input.placeholder = spec?.default ?? "";
  }
  fitTime(row);
  fitPolicy(row, type, choices.words);
  row.querySelector("[data-timeout]").hidden = !type;
  const help = row.querySelector("[data-help]");
  help.textContent = type?.help ?? "";
  help.hidden = !type;
}

const usual = () => usualTimes(choices, robot?.value, site.value);

function fitTime(row) {
  const command = part(row, "command").value;
  part(row, "timeout_s").placeholder = command ? String(usual().steps(command)) : "";
}

function followDrive(row) {
  // what is picked up or put down is mostly where the step before drove to
  const before = rows()[numberOf(row) - 2];
  const place = part(row, "place");
  const driven = before && part(before, "command").value === "navigate" && part(before, "place").value;
  if (driven && !place.value && ["pick", "drop"].includes(part(row, "command").value)) place.value = driven;
}

function fitRobot() {
  const can = choices.robots[robot?.value]?.can;
  for (const row of everyRow()) {
    for (const option of part(row, "command").options) {
      const name = choices.types[option.value]?.label;
      if (name) option.textContent = !can || can.includes(option.value) ? name : `${name} (this robot cannot)`;
    }
  }
}

function fitUsual() {
  everyRow().forEach(fitTime);
  if (!robot) return; // a template says it all itself
  form.elements.timeout_s.placeholder = String(usual().mission());
  const offline = choices.robots[robot.value]?.offline;
  form.elements.offline_policy.options[0].textContent = offline ? `As the robot's brand says: ${offline.toLowerCase()}` : "As the robot's brand says";
}

function fitSite() {
  for (const option of robot?.options ?? []) {
    const known = choices.robots[option.value];
    option.hidden = option.disabled = Boolean(site.value && known && String(known.site) !== site.value);
  }
  for (const group of robot?.querySelectorAll("optgroup") ?? []) group.hidden = !group.querySelector("option:not([hidden])");
  if (robot?.selectedOptions[0]?.disabled) robot.value = "";
  const options = (choices.places[site.value] ?? []).map((name) => Object.assign(document.createElement("option"), { value: name }));
  if (site.value) document.getElementById("places").replaceChildren(...options);
  fitRobot();
  fitUsual();
}

function renumber() {
  const shown = rows();
  shown.forEach((row, i) => {
    row.querySelector(".step-number").textContent = i + 1;
    part(row, "ORDER").value = i + 1;
    row.querySelector('[data-do="up"]').disabled = i === 0;
    row.querySelector('[data-do="down"]').disabled = i === shown.length - 1;
  });
  add.disabled = shown.length >= choices.max_steps;
  for (const button of list.querySelectorAll('[data-do="duplicate"]')) button.disabled = add.disabled;
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

function addRow(after) {
  const holder = document.createElement("template");
  holder.innerHTML = template.innerHTML.replaceAll("__prefix__", total.value);
  const row = holder.content.querySelector("[data-step]");
  after ? after.after(row) : list.append(row);
  total.value = Number(total.value) + 1;
  prepare(row);
  fitRobot();
  renumber();
  return row;
}

const changed = () => form.dispatchEvent(new Event("input", { bubbles: true }));

const DO = {
  up: (row) => move(row, -1),
  down: (row) => move(row, 1),
  duplicate(row) {
    const copy = addRow(row);
    const policy = [...row.querySelectorAll("[data-policy-input]")].map((holder) => holder.dataset.policyInput);
    const inputs = new Set(Object.values(choices.types).flatMap((t) => Object.keys(t.inputs)));
    for (const name of ["command", "timeout_s", ...inputs, ...policy]) part(copy, name).value = part(row, name).value;
    fitInputs(copy);
    part(copy, "command").focus();
    tell(`Step ${numberOf(row)} duplicated as step ${numberOf(copy)}.`);
  },
  remove(row) {
    const number = numberOf(row);
    const shown = rows();
    const neighbour = shown[number] ?? shown[number - 2];
    drop(row);
    part(neighbour ?? addRow(), "command").focus();
    renumber();
    tell(`Step ${number} removed. ${rows().length} left.`);
  },
};

function move(row, by) {
  const other = rows()[numberOf(row) - 1 + by];
  if (!other) return;
  by < 0 ? other.before(row) : other.after(row);
  renumber();
  tellPlace(row);
}

list.addEventListener("input", (event) => sayPolicy(rowOf(event.target), choices.words));
list.addEventListener("change", (event) => {
  if (!event.target.name.endsWith("-command")) return;
  fitInputs(rowOf(event.target));
  followDrive(rowOf(event.target));
});
list.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-do]");
  if (!button) return;
  const row = rowOf(button);
  DO[button.dataset.do](row);
  if (["up", "down"].includes(button.dataset.do)) (button.disabled ? row.querySelector("[data-handle]") : button).focus();
  changed();
});
watchOrder(list, rows, {
  step(row, by) {
    move(row, by);
    changed();
  },
  dropped(row) {
    renumber();
    tellPlace(row);
    changed();
  },
});
add.addEventListener("click", () => part(addRow(), "command").focus());
site.addEventListener("change", fitSite);
robot?.addEventListener("change", () => {
  const known = choices.robots[robot.value];
  if (known && !site.value) {
    site.value = known.site;
    fitSite();
  }
  fitRobot();
  fitUsual();
});

add.hidden = false;
form.querySelectorAll("[data-plain]").forEach((element) => (element.hidden = true));
const place = (row) => Number(part(row, "ORDER").value) || Infinity;
for (const row of everyRow().sort((a, b) => (place(a) === place(b) ? 0 : place(a) - place(b)))) {
  list.append(row);
  prepare(row);
  const spare = !part(row, "command").value && !row.querySelector(".errorlist li"); // for those without a script
  if (spare || part(row, "DELETE").checked) drop(row);
}
if (!rows().length) addRow();
fitSite();
renumber();
startChecking(form);
