// A page of nothing for the scripts in static/live: elements that remember, and time that only a test moves.
export class Thing {
  constructor(about = {}) {
    Object.assign(this, { dataset: {}, attributes: [], textContent: "", hidden: false, open: false }, about);
    this.children = [];
    this.parts = {};
    this.listeners = {};
    const classes = new Set();
    this.classList = {
      add: (name) => classes.add(name),
      remove: (name) => classes.delete(name),
      contains: (name) => classes.has(name),
      toggle: (name, on = !classes.has(name)) => (on ? classes.add(name) : classes.delete(name)),
    };
  }
  querySelector(selector) { return (this.parts[selector] ??= new Thing()); }
  addEventListener(type, listener) { (this.listeners[type] ??= []).push(listener); }
  on(type, event = {}) { this.listeners[type]?.forEach((listener) => listener({ target: this, preventDefault() {}, ...event })); }
  contains(other) { return other === this || this.children.includes(other); }
  matches() { return false; }
  closest() { return null; }
  append(...made) { this.children.push(...made); }
  replaceChildren(...made) { this.children = made; }
  insertBefore(child, before) {
    this.children.splice(this.children.indexOf(child), 1);
    this.children.splice(before ? this.children.indexOf(before) : this.children.length, 0, child);
  }
  get lastChild() { return this.children.at(-1); }
  cloneNode() { return new Thing(); }
  focus() { document.activeElement = this; }
  removeAttribute(name) { delete this[name]; }
}

let now = 0;
const timers = new Map();
let made = 0;
const timer = (ms, run) => (timers.set(++made, { at: now + ms, ms, run }), made);
globalThis.performance = { now: () => now };
Date.now = () => Date.UTC(2026, 10, 29, 10) + now;
globalThis.setTimeout = (run, ms = 0) => { const id = timer(ms, () => (timers.delete(id), run())); return id; };
globalThis.setInterval = (run, ms) => timer(ms, function again() { this.at += ms; run(); });
globalThis.clearTimeout = (id) => timers.delete(id);
export const later = (ms) => {
  for (const end = now + ms; ; ) {
    const [next] = [...timers.values()].filter((t) => t.at <= end).sort((a, b) => a.at - b.at);
    now = next?.at ?? end;
    if (!next) return;
    next.run();
  }
};
export const waits = () => [...timers.values()].map((t) => t.ms);

const known = {};
globalThis.document = Object.assign(new Thing(), {
  body: new Thing(),
  activeElement: null,
  visibilityState: "visible",
  cards: [],
  getElementById: (id) => known[id] ?? null,
  createElement: () => new Thing(),
  querySelectorAll: () => document.cards,
});
document.parts['meta[name="server-time"]'] = new Thing();
export const there = (id, about = {}) => (known[id] = Object.assign(new Thing(about), { id }));
globalThis.window = new Thing();
globalThis.Node = { DOCUMENT_POSITION_FOLLOWING: 4 };
globalThis.sessionStorage = { kept: {}, getItem: (k) => sessionStorage.kept[k] ?? null, setItem: (k, v) => (sessionStorage.kept[k] = v), removeItem: (k) => delete sessionStorage.kept[k] };
