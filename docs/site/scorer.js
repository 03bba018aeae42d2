/* Search shows guides first, a generated name only for a query such as `axe_nb.run` or `RunResult`,
   and pages for contributors last. */
const isName = /[._]|[a-z][A-Z]/.test(new URLSearchParams(window.location.search).get("q") ?? "");
const LATER = /^(CHANGELOG|docs\/(architecture|comparison|contributing|decisions|designs))/;

var Scorer = {
  score: ([page, , , , score, , kind]) =>
    score - (kind === "object" && !isName ? 100 : LATER.test(page) ? 3 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
