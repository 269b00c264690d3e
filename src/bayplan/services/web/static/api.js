// Requests to /api/v1: the token of this tab, answers kept by ETag, and the stream of changes.

const kept = new Map();
const MOST_KEPT = 40;
const TOO_MANY_REQUESTS = 429;
const MOST_ATTEMPTS = 5;
const BEHIND = "Bayplan-Newer-In";

// Called with the seconds after which an answer about the present state can be had.
let onBehind = () => {};

export function whenBehind(call) {
  onBehind = call;
}

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export function setToken(token) {
  sessionStorage.setItem("token", token);
}

function headers(more = {}) {
  const token = sessionStorage.getItem("token");
  return token ? { Authorization: `Bearer ${token}`, ...more } : more;
}

function queryOf(parameters) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value));
  return query.size ? `?${query}` : "";
}

export async function ask(question, parameters = {}) {
  const url = `/api/v1/${question}${queryOf(parameters)}`;
  const known = kept.get(url);
  const response = await fetched(url, { headers: headers(known ? { "If-None-Match": known.etag } : {}) });
  if (response.headers.has(BEHIND)) onBehind(Number(response.headers.get(BEHIND)));
  if (response.status === 304) return known.document;
  const document = await answered(response);
  if (parameters.since) return document;
  kept.delete(url);
  kept.set(url, { etag: response.headers.get("ETag"), document });
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
  return document;
}

export async function whatIf(manifest, parameters = {}) {
  const options = { method: "POST", body: manifest, headers: headers({ "Content-Type": "application/yaml" }) };
  return answered(await fetched(`/api/v1/what-if${queryOf(parameters)}`, options));
}

async function fetched(url, options) {
  for (let attempts = 1; ; attempts++) {
    let response;
    try {
      response = await fetch(url, options);
    } catch {
      throw new Refused(0, "bayplan web does not answer; this page goes on by itself when it does");
    }
    if (response.status !== TOO_MANY_REQUESTS || attempts === MOST_ATTEMPTS) return response;
    await new Promise((resolve) => setTimeout(resolve, 1000 * Number(response.headers.get("Retry-After"))));
  }
}

async function answered(response) {
  const document = await response.json().catch(() => ({ error: response.statusText }));
  if (!response.ok) throw new Refused(response.status, document.error);
  return document;
}

// Calls `onChange` for each change, and again and again after a lost connection. EventSource cannot send a token.
export async function follow(onChange, onLost) {
  for (let wait = 1000; ; wait = Math.min(wait * 2, 15000)) {
    // A browser keeps a page that is left, with its connections, for a minute, and has only six for a server.
    const left = new AbortController();
    const leave = () => left.abort();
    addEventListener("pagehide", leave);
    try {
      const response = await fetch("/api/v1/events", { headers: headers(), signal: left.signal });
      if (!response.ok) throw new Refused(response.status, (await response.json()).error);
      wait = 1000;
      await read(response.body.getReader(), onChange);
    } catch (error) {
      if (!left.signal.aborted) onLost(error);
      if (error.status === 401 || error.status === 403) return;
    } finally {
      removeEventListener("pagehide", leave);
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

async function read(reader, onChange) {
  const decoder = new TextDecoder();
  for (let text = ""; ;) {
    const { done, value } = await reader.read();
    if (done) throw new Refused(0, "the connection to bayplan web is lost; trying again");
    text += decoder.decode(value, { stream: true });
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const data = /^data: (.*)$/m.exec(text.slice(0, end));
      if (data) onChange(JSON.parse(data[1]));
      text = text.slice(end + 2);
    }
  }
}
