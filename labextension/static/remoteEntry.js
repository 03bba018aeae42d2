// Shows the bodies of axe_nb's cells as what they are: prompts as Markdown, agents as TOML. It marks
// the line of a magic, and the `{{ }}` that are replaced. JupyterLab and Notebook 7 load this file as
// it is. It never changes a document, and whatever fails here only loses colours.

(() => {
  const NAME = "axe-nb";
  const PROMPT = "text/x-axe-prompt";
  const AGENT = "text/x-axe-agent";

  // Blank lines and other cell magics may stand above ours.
  const HEAD = /^(?:[ \t]*\n|%%(?!axe)\w.*\n)*%%(axe_agent|axe_grid|axe)(?!\w).*/;
  const LINE = /^[ \t]*(?:[\w., ]+=[ \t]*)?(%axe(?!\w))(.*)/;
  const LONGEST_HEAD = 5000; // characters of a cell that are looked at for its magic
  const LONGEST_SLOT = 1000; // characters between braces, as in interpolation.py
  const MOST_CHANGES = 20; // of one cell's type without an edit: something else insists on its own

  const WORDS = "and|or|not|in|is|if|else|for|lambda|await|async";
  const NO_EXPRESSION = new RegExp(String.raw`\b(?!(?:${WORDS})\b)\w+\s+(?!(?:${WORDS})\b)\w`);

  let hasFailed = false;

  function report(error) {
    if (hasFailed) return;
    hasFailed = true;
    console.warn(`${NAME}: cells keep the colours of Python.`, error);
  }

  // A function of which a failure costs colours only.
  function careful(work) {
    return async (...given) => {
      try {
        return await work(...given);
      } catch (error) {
        report(error);
      }
    };
  }

  function findHead(source) {
    const found = HEAD.exec(source.slice(0, LONGEST_HEAD));
    return found && { magic: found[1], line: found[0].split("\n").pop(), end: found[0].length };
  }

  // Whether the text between the braces looks like an expression that is evaluated.
  function isSlot(text, magic) {
    if (magic === "axe_agent") return /^\s*[^\W\d]\w*\s*$/.test(text);
    const code = text.replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, "0");
    const names = code.replace(/\b(?:True|False|None)\b/g, "0");
    return !/^\s*[#/>&!]/.test(names) && /[^\W\d]/.test(names) && !NO_EXPRESSION.test(names);
  }

  function* findSlots(text, magic) {
    for (let at = text.indexOf("{{"); at >= 0; at = text.indexOf("{{", at + 1)) {
      const end = text.indexOf("}}", at + 2);
      if (end < 0) return;
      if (end - at > LONGEST_SLOT || text[at - 1] === "\\" || text[at + 2] === "{") continue;
      if (!isSlot(text.slice(at + 2, end), magic)) continue;
      yield [at, end + 2];
      at = end;
    }
  }

  // ── Marks: the same in every language, so that they are there before and without ours ──

  function makeMarks({ Decoration, EditorView, ViewPlugin }, { language }) {
    const head = Decoration.line({ class: "axe-nb-head" });
    const magic = Decoration.mark({ class: "axe-nb-magic" });
    const options = Decoration.mark({ class: "axe-nb-options" });
    const slot = Decoration.mark({ class: "axe-nb-slot" });

    function isCode(state) {
      const name = state.facet(language)?.name ?? "";
      return /^(|i?python|axe)$/.test(name);
    }

    function* findMarks(state) {
      const source = state.doc.toString();
      const first = findHead(source);
      if (!first) {
        if (!source.includes("%axe")) return;
        let at = 0;
        for (const line of source.split("\n")) {
          const found = LINE.exec(line);
          const end = at + line.length;
          if (found) {
            const rest = end - found[2].length;
            yield magic.range(rest - found[1].length, rest);
            if (rest < end) yield options.range(rest, end);
          }
          at = end + 1;
        }
        return;
      }
      const at = first.end - first.line.length;
      const name = at + first.magic.length + 2;
      yield head.range(at);
      yield magic.range(at, name);
      if (name < first.end) yield options.range(name, first.end);
      if (/\s--raw(?!\S)/.test(first.line)) return;
      for (const [from, to] of findSlots(source.slice(first.end), first.magic)) {
        yield slot.range(first.end + from, first.end + to);
      }
    }

    const plugin = ViewPlugin.fromClass(
      class {
        constructor(view) {
          this.mark(view.state);
        }

        update({ docChanged, startState, state }) {
          if (docChanged || startState.facet(language) !== state.facet(language)) this.mark(state);
        }

        mark(state) {
          this.marks = Decoration.set(isCode(state) ? [...findMarks(state)] : [], true);
        }
      },
      { decorations: (one) => one.marks },
    );
    // the colours of a parser stand on elements inside the marks
    const theme = EditorView.baseTheme({
      ".axe-nb-head": {
        background: "color-mix(in srgb, var(--jp-mirror-editor-meta-color) 9%, transparent)",
      },
      ".axe-nb-magic, .axe-nb-magic *": {
        color:
          "color-mix(in srgb, var(--jp-mirror-editor-meta-color) 65%, var(--jp-content-font-color0))",
        fontWeight: "bold",
      },
      ".axe-nb-options, .axe-nb-options *": {
        color: "var(--jp-content-font-color1)",
        fontStyle: "normal",
        fontWeight: "normal",
        textDecoration: "none",
      },
      ".axe-nb-slot": {
        background: "color-mix(in srgb, var(--jp-brand-color1) 16%, transparent)",
        borderRadius: "3px",
      },
      ".axe-nb-slot, .axe-nb-slot *": {
        color: "var(--jp-content-font-color0)",
        fontStyle: "normal",
        textDecoration: "none",
      },
    });
    return [plugin, theme];
  }

  // ── Languages ──

  async function makePrompt(languages, { Language, LanguageSupport, defineLanguageFacet }) {
    const markdown = await languages.getLanguage("ipythongfm");
    const parser = markdown.support.language.parser.configure({
      defineNodes: [{ name: "AxeHead", block: true }],
      parseBlock: [
        {
          name: "AxeHead",
          before: "IndentedCode",
          parse(context, line) {
            const isHead = context.lineStart === 0 ? /^%%\w/ : /^%%axe(?:_grid)?(?!\w)/;
            if (!isHead.test(line.text)) return false;
            const from = context.lineStart;
            const end = from + line.text.length;
            context.nextLine();
            context.addElement(context.elt("AxeHead", from, end));
            return true;
          },
          endLeaf: (_, line) => /^%%axe(?:_grid)?(?!\w)/.test(line.text),
        },
      ],
    });
    const brackets = { brackets: ["(", "[", "{", "`"] };
    const facet = defineLanguageFacet({ closeBrackets: brackets });
    return new LanguageSupport(new Language(facet, parser, [], "axe"));
  }

  // Reads one token of TOML; the text of a multi-line string goes on from line to line.
  function readToken(stream, state) {
    if (state.quote) {
      if (!endString(stream, state.quote)) return "string";
      state.quote = "";
      return "string";
    }
    if (stream.sol() && !state.depth) state.isValue = false;
    if (stream.eatSpace()) return null;
    if (stream.peek() === "#") {
      stream.skipToEnd();
      return "comment";
    }
    if (!state.isValue) return readKey(stream, state);
    const quotes = stream.match(/^(?:"""|''')/);
    if (quotes) {
      state.quote = quotes[0];
      if (endString(stream, state.quote)) state.quote = "";
      return "string";
    }
    if (stream.match(/^(?:"(?:[^"\\]|\\.)*"?|'[^']*'?)/)) return "string";
    if (stream.match(/^[\w-]+(?=\s*=)/)) return "propertyName";
    if (stream.match(/^(?:true|false)\b/)) return "bool";
    if (stream.match(/^[+-]?(?:\d[\w.:+-]*|inf\b|nan\b)/)) return "number";
    const next = stream.next();
    if (next === "[" || next === "{") state.depth += 1;
    if (next === "]" || next === "}") state.depth = Math.max(0, state.depth - 1);
    return null;
  }

  function endString(stream, quotes) {
    const end = quotes === '"""' ? /^(?:[^"\\]|\\.|"(?!""))*"{3,5}/ : /^(?:[^']|'(?!''))*'{3,5}/;
    if (stream.match(end)) return true;
    stream.skipToEnd();
    return false;
  }

  function readKey(stream, state) {
    if (stream.match(/^\[[^\]]*\]*/)) return "heading";
    if (stream.match(/^(?:"(?:[^"\\]|\\.)*"?|'[^']*'?|[\w-]+)/)) return "propertyName";
    if (stream.next() === "=") state.isValue = true;
    return null;
  }

  function makeAgent({ LanguageSupport, StreamLanguage }) {
    const parser = {
      name: "axe",
      startState: () => ({ isBody: false, isValue: false, quote: "", depth: 0 }),
      copyState: (state) => ({ ...state }),
      token(stream, state) {
        if (state.isBody) return readToken(stream, state);
        state.isBody = /^%%axe_agent(?!\w)/.test(stream.string);
        stream.skipToEnd();
        return null;
      },
      languageData: { commentTokens: { line: "#" } },
    };
    return new LanguageSupport(StreamLanguage.define(parser));
  }

  // ── Cells: their type says which language the editor takes ──

  function wantedType(cell, notebook) {
    if (cell.type !== "code" || !/python|^text\/plain$/.test(notebook.codeMimetype)) return null;
    const head = findHead(cell.sharedModel.getSource());
    if (head) return head.magic === "axe_agent" ? AGENT : PROMPT;
    const isOurs = cell.mimeType === PROMPT || cell.mimeType === AGENT;
    return isOurs ? notebook.codeMimetype : null;
  }

  function watchCell(cell, notebook, languages) {
    let changes = 0;
    const check = careful(async () => {
      const wanted = wantedType(cell, notebook);
      if (!wanted || wanted === cell.mimeType || (changes += 1) > MOST_CHANGES) return;
      // The editor sets a language when it has arrived, even if the type is another by then. So
      // both are there first, and what the editor has begun ends before it is told of the change.
      await Promise.all([wanted, cell.mimeType].map((type) => languages.getLanguage(type)));
      await new Promise((resolve) => setTimeout(resolve));
      if (!cell.isDisposed && wantedType(cell, notebook) === wanted) cell.mimeType = wanted;
    });
    cell.mimeTypeChanged.connect(check);
    cell.contentChanged.connect(() => {
      changes = 0;
      check();
    });
    check();
  }

  // The words of axe_nb's prompts. What was asked and decided is in the tree: JupyterLab's copy of the
  // dialogue goes, so that no saved cell holds it.
  const DIALOGUE = /^\s*answer to .{1,200}> |\[s\]top: |^\s*arguments, as JSON: |reply, as text or JSON(: |; empty = unchanged: )|^\s*result of the call: /;

  function dropDialogue(cell) {
    const { outputs } = cell;
    // the model joins a stream to the one before it, by a name that it keeps when that one is removed
    if (!outputs?.remove || outputs._lastStreamName === undefined) return;
    const look = careful(() => {
      for (let at = outputs.length - 1; at >= 0; at -= 1) {
        const { output_type, name, text } = outputs.get(at).toJSON();
        if (output_type !== "stream" || name !== "stdin") continue;
        if (!DIALOGUE.test([text].flat().join(""))) continue;
        if (at === outputs.length - 1) outputs._lastStreamName = "";
        outputs.remove(at);
        // JupyterLab 4.6 removes it from the document only where it is the first one
        const { sharedModel } = cell;
        const isLeft = sharedModel.outputs.length > outputs.length;
        if (isLeft) sharedModel.updateOutputs(at, at + 1, [], "silent-change");
      }
    });
    outputs.changed.connect((_, { type }) => type !== "remove" && setTimeout(look));
  }

  function watchNotebook(notebook, languages) {
    const known = new WeakSet();
    const look = careful(() => {
      const cells = notebook.model?.cells;
      if (!cells) return;
      for (const cell of cells) {
        if (known.has(cell)) continue;
        known.add(cell);
        if (cell.type !== "code") continue;
        watchCell(cell, notebook, languages);
        dropDialogue(cell);
      }
    });
    const follow = careful(() => {
      notebook.model?.cells.changed.connect(look);
      look();
    });
    notebook.modelChanged.connect(follow);
    follow();
  }

  // ── What JupyterLab asks for ──

  let scope = {};

  // The lab's own copy of a module: another one's tokens and facets would not be the same.
  async function load(name) {
    const entries = Object.entries(scope[name] ?? {});
    const newest = entries.sort(([a], [b]) => b.localeCompare(a, "en", { numeric: true }));
    const [, entry] = newest.find(([, one]) => one.loaded) ?? newest[0] ?? [];
    if (!entry) throw new Error(`this JupyterLab has no ${name}`);
    return (await entry.get())();
  }

  async function makePlugin() {
    const modules = ["@jupyterlab/codemirror", "@jupyterlab/notebook", "@codemirror/language"];
    const [editors, notebooks, lezer, views] = await Promise.all(
      [...modules, "@codemirror/view"].map(load),
    );
    const { EditorExtensionRegistry, IEditorExtensionRegistry, IEditorLanguageRegistry } = editors;

    function addMarks(extensions) {
      const marks = EditorExtensionRegistry.createImmutableExtension(makeMarks(views, lezer));
      extensions.addExtension({ name: `${NAME}:marks`, factory: () => marks });
    }

    function addLanguages(languages, tracker) {
      const prompt = () => makePrompt(languages, lezer);
      languages.addLanguage({ name: "axe prompt", mime: PROMPT, load: prompt });
      const agent = async () => makeAgent(lezer);
      languages.addLanguage({ name: "axe agent", mime: AGENT, load: agent });
      const watch = careful((panel) => watchNotebook(panel.content, languages));
      tracker.forEach(watch);
      tracker.widgetAdded.connect((_, panel) => watch(panel));
    }

    return {
      id: `${NAME}:cells`,
      autoStart: true,
      requires: [notebooks.INotebookTracker],
      optional: [IEditorLanguageRegistry, IEditorExtensionRegistry],
      async activate(_, tracker, languages, extensions) {
        await careful(addMarks)(extensions);
        await careful(addLanguages)(languages, tracker);
      },
    };
  }

  const container = {
    init(shared) {
      scope = shared;
    },
    async get() {
      const plugin = await makePlugin();
      return () => ({ __esModule: true, default: plugin });
    },
  };
  (window._JUPYTERLAB ??= {})[NAME] = container;
})();
