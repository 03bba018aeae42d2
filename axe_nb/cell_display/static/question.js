// The question that a row waits for, with buttons that answer it. They type their letter into the
// cell's own open input, as a person would: nothing else answers a cell that runs. Which input is
// its own is decided by the text of the prompt; a letter that is none of LETTERS is no button.

const LETTERS = "yaenglrks".split("");
const ARGUMENTS = "arguments, as JSON: "; // the prompt of session/typed_json.py
const LOOK = 100; // milliseconds between two looks for the input

class Question {
  constructor(row) {
    this.row = row;
    this.text = make("pre");
    this.diff = make("div", "diff");
    this.buttons = make("div", "answers");
    this.element = make("div", "question", this.text, this.diff, this.buttons);
    this.element.hidden = true;
    this.shown = "";
    this.data = null;
  }

  // data: as views/question.py makes it; null = the question has its answer.
  draw(data) {
    const shown = JSON.stringify(data ?? null);
    if (shown === this.shown) return;
    this.shown = shown;
    this.data = data;
    this.wasOurs = this.fills = false;
    this.element.hidden = !data;
    clearInterval(this.timer);
    if (!data) return;
    put(this.text, data.text);
    this.diff.replaceChildren(...data.diff.map(([kind, line]) => {
      const part = make("div", ["new", "gone", "place"].includes(kind) ? kind : "", line || " ");
      part.dir = "auto";
      return part;
    }));
    const letters = data.choices.filter(([letter]) => LETTERS.includes(letter));
    this.buttons.replaceChildren(...letters.map((choice) => this.button(...choice)));
    for (let at = this.row; at; at = at.parentElement?.closest("details")) at.open = true;
    this.timer = setInterval(() => this.look(), LOOK);
    this.look();
  }

  button(letter, name) {
    const button = make("button", "answer", name, " ", make("kbd", "", letter));
    button.type = "button";
    button.addEventListener("click", (event) => {
      const box = event.isTrusted && this.find();
      if (!box) return;
      this.fills = letter === "e";
      box.value = letter;
      box.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
      this.look();
    });
    return button;
  }

  // The open input of this cell, with its prompt; an answered one stays for half a second.
  get open() {
    const boxes = this.row.closest(".jp-Cell")?.querySelectorAll("input.jp-Stdin-input") ?? [];
    const box = [...boxes].findLast((each) => !each.closest(".jp-OutputArea-stdin-hiding"));
    if (!box || box.type === "password") return [null, ""];
    return [box, box.closest(".jp-Stdin")?.querySelector(".jp-Stdin-prompt")?.textContent ?? ""];
  }

  // The input that this question's letters belong into; null = there is none.
  find() {
    const [box, text] = this.open;
    const { prompt } = this.data ?? {};
    if (!box || !prompt) return null;
    const choices = prompt.slice(prompt.lastIndexOf("\n"));
    // a wrong answer is asked again, in other words; the first prompt of a question begins a line
    const isAgain = this.wasOurs && !text.startsWith("\n") && text.endsWith(choices);
    if (text !== prompt && !isAgain) return null;
    this.wasOurs = true;
    return box;
  }

  look() {
    const isOpen = Boolean(this.find());
    for (const button of this.buttons.children) button.disabled = !isOpen;
    const [box, text] = this.open;
    if (!this.fills || text !== ARGUMENTS) return;
    this.fills = false;
    box.value = this.data.arguments;
    box.focus();
  }

  close() {
    clearInterval(this.timer);
  }
}
