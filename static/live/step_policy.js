// What happens when a step goes wrong: one line in words while somebody is choosing, and what is usual for the command.
const part = (row, name) => row.querySelector(`[name$="-${name}"]`);
const yes = (value) => (value ? "yes" : "no");

function course(row, why, words) {
  const tries = Math.max(0, Math.trunc(Number(part(row, `${why}_retries`).value)) || 0);
  const said = tries === 0 ? "" : tries === 1 ? words.one : words.more.replace("{n}", tries);
  return `${said} ${words[part(row, `${why}_then`).value || "abort"]}`.trim();
}

export function sayPolicy(row, words) {
  const [timeout, failure] = [course(row, "timeout", words), course(row, "failure", words)];
  const apart = `${words.timeout} ${timeout}; ${words.failure} ${failure}.`;
  row.querySelector("[data-policy-says]").textContent = timeout === failure ? `${words.both} ${timeout}.` : apart;
}

export function fitPolicy(row, type, words) {
  row.querySelector("[data-policy]").hidden = !type;
  sayPolicy(row, words);
  if (!type) return;
  for (const name of ["repeatable", "confirm"]) {
    part(row, name).options[0].textContent = `As usual: ${yes(type[name])}`;
  }
  const confirm = part(row, "confirm");
  if (type.confirm) confirm.value = ""; // always asked for
  confirm.closest("[data-policy-input]").hidden = type.confirm;
}

// Times that hold where nothing is said: of the chosen robot's brand; of no robot the longest of those that could do it.
export function usualTimes(choices, robotId, siteId) {
  const chosen = choices.robots[robotId];
  const here = chosen ? [chosen] : Object.values(choices.robots).filter((r) => String(r.site) === siteId);
  return {
    steps(command) {
      const able = here.filter((r) => r.can.includes(command));
      const own = choices.types[command].timeout_s;
      return able.length ? Math.max(...able.map((r) => r.step_timeouts[command] ?? own)) : own;
    },
    mission: () => (here.length ? Math.max(...here.map((r) => r.timeout_s)) : 600),
  };
}
