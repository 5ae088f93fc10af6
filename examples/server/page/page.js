// The page at /: a chat beside a list of documents. It uses the server's public interface alone: /v1/models, /v1/chunks
// and /v1/chat/completions.
"use strict";

const element = (id) => document.getElementById(id);
const state = {
  documents: [], // as /v1/chunks tells them, in the order in which they stand in a prompt
  chosen: new Set(JSON.parse(localStorage.getItem("chosen") || "[]")),
  order: JSON.parse(localStorage.getItem("order") || "[]"),
  messages: [], // of the chat so far
  running: null, // the AbortController of an answer under way
};

// ---- The server ----------------------------------------------------------------------------------

async function call(method, path, body, signal) {
  const headers = {};
  if (body) headers["Content-Type"] = "application/json";
  if (element("key").value) headers.Authorization = "Bearer " + element("key").value;
  const response = await fetch(path, { method, headers, body: body && JSON.stringify(body), signal });
  if (response.ok) return response;
  const reply = await response.json().catch(() => ({}));
  if (response.status === 401) element("settings").open = true;
  throw new Error(reply.error?.message || `${response.status} ${response.statusText}`);
}

// Gives each event of a stream as JSON.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    const parts = held.split("\n\n");
    held = parts.pop();
    for (const part of parts) {
      const data = part.replace(/^data: /, "");
      if (data !== "[DONE]") yield JSON.parse(data);
    }
  }
}

function tell(message) {
  element("notice").textContent = message;
  element("notice").hidden = !message;
}

// ---- Documents -----------------------------------------------------------------------------------

async function loadDocuments() {
  const reply = await (await call("GET", "/v1/chunks")).json();
  const place = new Map(state.order.map((id, index) => [id, index]));
  const rank = (id) => place.get(id) ?? state.order.length;
  state.documents = reply.data.sort((a, b) => rank(a.id) - rank(b.id));
  showDocuments();
}

function keepChoice() {
  state.order = state.documents.map((entry) => entry.id);
  localStorage.setItem("order", JSON.stringify(state.order));
  localStorage.setItem("chosen", JSON.stringify([...state.chosen]));
}

function chosenDocuments() {
  return state.documents.filter((entry) => state.chosen.has(entry.id));
}

function move(index, by) {
  const other = index + by;
  if (other < 0 || other >= state.documents.length) return;
  const id = state.documents[index].id;
  [state.documents[index], state.documents[other]] = [state.documents[other], state.documents[index]];
  keepChoice();
  showDocuments();
  element("document-" + id).focus();
}

async function remove(entry) {
  try {
    await call("DELETE", "/v1/chunks/" + encodeURIComponent(entry.id));
    state.chosen.delete(entry.id);
    await loadDocuments();
    keepChoice();
  } catch (error) {
    tell(error.message);
  }
}

function button(text, label, action) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.setAttribute("aria-label", label);
  made.title = label;
  made.addEventListener("click", action);
  return made;
}

function documentItem(entry, index) {
  const item = document.createElement("li");
  const name = entry.title || entry.id;
  const box = document.createElement("input");
  box.type = "checkbox";
  box.id = "document-" + entry.id;
  box.checked = state.chosen.has(entry.id);
  box.addEventListener("change", () => {
    if (box.checked) state.chosen.add(entry.id);
    else state.chosen.delete(entry.id);
    keepChoice();
    showCount();
    item.classList.toggle("chosen", box.checked);
  });
  item.addEventListener("keydown", (event) => {
    if (!event.altKey || (event.key !== "ArrowUp" && event.key !== "ArrowDown")) return;
    event.preventDefault();
    move(index, event.key === "ArrowUp" ? -1 : 1);
  });
  const label = document.createElement("label");
  label.htmlFor = box.id;
  const title = document.createElement("span");
  title.textContent = name;
  const facts = document.createElement("span");
  facts.className = "quiet";
  facts.textContent = `${entry.tokens} tokens${entry.pinned ? ", pinned" : ""}`;
  label.append(title, facts);
  const moves = document.createElement("span");
  moves.className = "moves";
  const up = button("↑", `Move ${name} up`, () => move(index, -1));
  const down = button("↓", `Move ${name} down`, () => move(index, 1));
  up.disabled = index === 0;
  down.disabled = index === state.documents.length - 1;
  moves.append(up, down, button("×", `Remove ${name}`, () => remove(entry)));
  item.classList.toggle("chosen", box.checked);
  item.append(box, label, moves);
  return item;
}

function showCount() {
  const chosen = chosenDocuments();
  const tokens = chosen.reduce((sum, entry) => sum + entry.tokens, 0);
  element("chosen").textContent = chosen.length ? `${chosen.length} ticked, ${tokens} tokens` : "none ticked";
}

function showDocuments() {
  element("documents").replaceChildren(...state.documents.map(documentItem));
  element("no-documents").hidden = state.documents.length > 0;
  showCount();
}

async function addDocument(event) {
  event.preventDefault();
  const text = element("add-text").value;
  const title = element("add-title").value || text.trim().split(/\s+/).slice(0, 4).join(" ");
  try {
    const entry = await (await call("POST", "/v1/chunks", { text, title })).json();
    state.chosen.add(entry.id);
    element("add-form").reset();
    await loadDocuments();
    keepChoice();
    tell("");
  } catch (error) {
    tell(error.message);
  }
}

// ---- The chat ------------------------------------------------------------------------------------

function addTurn(role, text) {
  element("welcome")?.remove();
  const turn = document.createElement("div");
  turn.className = "turn " + role;
  const speaker = document.createElement("span");
  speaker.className = "hidden";
  speaker.textContent = role === "user" ? "You: " : "Answer: ";
  const words = document.createElement("p");
  words.textContent = text;
  turn.append(speaker, words);
  element("log").append(turn);
  turn.scrollIntoView({ block: "nearest" });
  return { turn, words };
}

const inMs = (ms) => (ms < 10 ? ms.toFixed(1) : Math.round(ms).toLocaleString("en")) + " ms";

function fact(list, kind, name, value) {
  const pair = document.createElement("div");
  const term = document.createElement("dt");
  term.className = kind;
  term.textContent = name;
  const description = document.createElement("dd");
  description.textContent = value;
  pair.append(term, description);
  list.append(pair);
}

function documentLine(use) {
  const line = document.createElement("li");
  const known = state.documents.find((entry) => entry.id === use.id);
  const from = use.computed ? `computed now` : `from ${use.origin === "device" ? "the device's pages" : "the " + use.origin}`;
  line.textContent = `${known?.title || use.id}: ${use.tokens} tokens, ${from}`;
  return line;
}

// What was reused and computed, and the times.
function showReport(turn, report, usage) {
  const box = document.createElement("div");
  box.className = "report";
  const bar = document.createElement("div");
  bar.className = "bar";
  bar.setAttribute("aria-hidden", "true");
  for (const [kind, count] of [["reused", report.tokens_reused], ["computed", report.tokens_computed]]) {
    const part = document.createElement("span");
    part.className = kind;
    part.style.flexGrow = count;
    bar.append(part);
  }
  const list = document.createElement("dl");
  fact(list, "reused", "Reused", `${report.tokens_reused} tokens`);
  fact(list, "computed", "Computed", `${report.tokens_computed} tokens`);
  if (report.tokens_blended) fact(list, "", "Blended", `${report.tokens_blended} tokens`);
  fact(list, "", "First token", inMs(report.first_token_ms));
  fact(list, "", "Answer", `${usage.completion_tokens} tokens in ${inMs(report.total_ms)}`);
  box.append(bar, list);
  if (report.documents.length) {
    const used = document.createElement("ul");
    used.append(...report.documents.map(documentLine));
    box.append(used);
  }
  turn.append(box);
  box.scrollIntoView({ block: "nearest" });
}

function requestBody() {
  const system = element("system").value.trim();
  const body = {
    messages: [...(system ? [{ role: "system", content: system }] : []), ...state.messages],
    documents: chosenDocuments().map((entry) => entry.id),
    max_tokens: Number(element("max-tokens").value) || 512,
    stream: true,
    stream_options: { include_usage: true },
  };
  if (element("composition").value) body.composition = element("composition").value;
  if (element("temperature").value !== "") body.temperature = Number(element("temperature").value);
  return body;
}

function setRunning(controller) {
  state.running = controller;
  element("send").hidden = controller !== null;
  element("stop").hidden = controller === null;
}

async function readAnswer(answer, signal) {
  let text = "";
  for await (const event of events(await call("POST", "/v1/chat/completions", requestBody(), signal))) {
    if (event.error) throw new Error(event.error.message);
    text += event.choices[0]?.delta?.content || "";
    answer.words.textContent = text.trim();
    if (event.nanolith) showReport(answer.turn, event.nanolith, event.usage);
  }
  return text;
}

async function ask(event) {
  event?.preventDefault();
  const question = element("question").value.trim();
  if (!question || state.running) return;
  element("question").value = "";
  tell("");
  state.messages.push({ role: "user", content: question });
  addTurn("user", question);
  const answer = addTurn("assistant", "");
  answer.turn.classList.add("busy");
  setRunning(new AbortController());
  try {
    const text = await readAnswer(answer, state.running.signal);
    state.messages.push({ role: "assistant", content: text.trim() });
  } catch (error) {
    state.messages.pop(); // a question without an answer is asked anew
    if (error.name !== "AbortError") tell(error.message);
    if (!answer.words.textContent) answer.turn.remove();
  }
  answer.turn.classList.remove("busy");
  setRunning(null);
  element("question").focus();
}

function newChat() {
  state.running?.abort();
  state.messages = [];
  element("log").replaceChildren();
  tell("");
  element("question").focus();
}

// ---- Start ---------------------------------------------------------------------------------------

async function start() {
  element("ask").addEventListener("submit", ask);
  element("add-form").addEventListener("submit", addDocument);
  element("new-chat").addEventListener("click", newChat);
  element("stop").addEventListener("click", () => state.running?.abort());
  element("key").addEventListener("change", connect);
  element("key-form").addEventListener("submit", (event) => event.preventDefault());
  element("question").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) ask(event);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") state.running?.abort();
  });
  const settings = await (await fetch("/page/settings")).json();
  element("system").value = settings.system_prompt;
  await connect();
}

async function connect() {
  try {
    const reply = await (await call("GET", "/v1/models")).json();
    element("model").textContent = reply.data[0].id;
    document.title = "Nanolith: " + reply.data[0].id;
    await loadDocuments();
    tell("");
  } catch (error) {
    element("model").textContent = "not connected";
    tell(error.message);
  }
}

start();
