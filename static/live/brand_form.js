// The form of a brand: settings of the chosen driver only; a new brand begins with the times that are usual for it.
const form = document.getElementById("brand_form");
const driver = form.elements.driver;
const usual = JSON.parse(document.getElementById("driver-timings").textContent);
let before = driver.value;

function fill(name, was, now) {
  const input = form.elements[name];
  if (!input) return;
  if (input.type === "checkbox") {
    if (input.checked === was) input.checked = now;
  } else if (input.value === "" || input.value === String(was)) {
    input.value = now; // what somebody typed stays
  }
}

function fit() {
  for (const group of form.querySelectorAll("[data-driver]")) group.hidden = group.dataset.driver !== driver.value;
}

driver.addEventListener("change", () => {
  const [was, now] = [usual[before], usual[driver.value]];
  if (was && now) for (const name of Object.keys(now)) fill(name, was[name], now[name]);
  before = driver.value;
  fit();
});
fit();
