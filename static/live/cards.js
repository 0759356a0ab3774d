// Cards by robot id, and how robots are named in a sentence.
const NAMED = 8; // by name, then a number

export const cardOf = (id) => document.getElementById(`robot-${id}`);
export const idOf = (card) => card.id.slice('robot-'.length);
export const allIds = () => [...document.querySelectorAll('#robots > .card')].map(idOf);
export const nameOf = (id) => cardOf(id)?.dataset.name ?? id;

export function names(ids) {
  const all = ids.map(nameOf);
  return all.length > NAMED ? `${all.slice(0, NAMED).join(', ')} and ${all.length - NAMED} more` : all.join(', ');
}
