
// The answer while it is written, above the tree, where it stands at the end and as it looks there.
// Its HTML comes from views/markdown.py, which lets nothing in that acts or loads; no other HTML is
// ever put into a page. cell_display/answer.py sends what has changed.

class Answer {
  constructor() {
    this.state = 0;
    this.blocks = []; // HTML of each block
    this.rest = ["", ""]; // what is left out, and the end of it
    this.isEarlier = false; // it is what was said before the calls that go on now
  }

  // An update that does not go on from this state would put its pieces in the wrong places, where
  // they may mean something else: the next snapshot has all of it.
  take(news) {
    if (!news || (news.before !== 0 && news.before !== this.state) || news.state < this.state) return;
    const [first, ...others] = news.html;
    const blocks = this.blocks.slice(0, news.kept);
    if (first !== undefined) {
      const begun = news.size ? this.blocks[news.kept].slice(0, news.size) : "";
      blocks.push(begun + first, ...others);
    }
    this.blocks = blocks;
    this.state = news.state;
    this.rest = news.rest;
    this.isEarlier = news.is_earlier;
  }
}

// The element that shows it. Blocks that stay the same are not touched, so that what a reader has
// selected there stays selected.
class Written {
  constructor() {
    this.shown = []; // [HTML, its nodes] of each block
    this.more = make("p", "more");
    this.end = make("pre", "end");
    // JupyterLab's own class, so that it looks as the saved answer will
    this.element = make("div", "writing", make("div", "", this.more, this.end));
    this.element.classList.add("jp-RenderedHTMLCommon", "mathjax_ignore", "tex2jax_ignore");
    this.follows = true; // until the reader scrolls up
    this.element.addEventListener("scroll", () => {
      const { scrollTop, clientHeight, scrollHeight } = this.element;
      this.follows = scrollHeight - scrollTop - clientHeight < 30;
    });
  }

  draw(answer) {
    const { blocks, rest, isEarlier } = answer;
    let kept = 0;
    while (kept < blocks.length && this.shown[kept]?.[0] === blocks[kept]) kept += 1;
    this.element.classList.toggle("axe-nb-earlier", isEarlier);
    put(this.more, rest[0]);
    put(this.end, rest[1]);
    if (kept === blocks.length && kept === this.shown.length) return;
    // one text takes another's place: what stands below stays where it is
    if (kept === 0 && this.shown.length) {
      this.element.style.minHeight = `${this.element.offsetHeight}px`;
    }
    for (const [, nodes] of this.shown.splice(kept)) nodes.forEach((node) => node.remove());
    for (const html of blocks.slice(kept)) {
      const template = document.createElement("template");
      template.innerHTML = html;
      const nodes = [...template.content.childNodes];
      this.more.before(...nodes);
      this.shown.push([html, nodes]);
    }
    if (this.follows) this.element.scrollTo(0, 1e9);
  }
}

// Reasoning is folded until a reader opens it. The button has the label's words, so that it stays
// while they stay the same; a block that becomes another one loses it.
function fold(block, isFolded) {
  const [name] = block.children;
  block.classList.toggle("axe-nb-thoughts", isFolded);
  if (!isFolded || name.querySelector("button")) return;
  const button = make("button", "fold", name.textContent);
  button.type = "button";
  const set = (isOpen) => {
    button.setAttribute("aria-expanded", String(isOpen));
    block.classList.toggle("axe-nb-unfolded", isOpen);
  };
  button.addEventListener("click", () => set(button.ariaExpanded !== "true"));
  set(false);
  name.replaceChildren(button);
}
