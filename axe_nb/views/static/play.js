// Plays the timeline of an exported run: bars grow and findings appear at their recorded times.
(() => {
  const chart = document.querySelector(".timeline");
  const rows = [...chart.querySelectorAll("[data-to]")];
  const end = Math.max(0, ...rows.map((row) => Number(row.dataset.to)));
  if (!end) return;
  const make = (name, fields, parent) => parent.appendChild(Object.assign(document.createElement(name), fields));
  const player = make("div", { className: "player" }, document.createElement("div"));
  const button = make("button", { type: "button" }, player);
  const slider = make("input", { type: "range", min: 0, max: end, step: "any", value: end, ariaLabel: "Time" }, player);
  const told = make("output", {}, player);
  const speeds = make("select", { ariaLabel: "Speed" }, player);
  for (const speed of [1, 2, 10, 60]) make("option", { value: speed, textContent: `${speed}×` }, speeds);
  chart.before(player);
  let at = end;
  let last = 0; // time of the last frame; 0 = it stands still

  function show(time) {
    at = Math.min(time, end);
    slider.value = at;
    told.textContent = `${at.toFixed(1)} s`;
    chart.style.setProperty("--played", at / end);
    for (const { dataset, classList } of rows) {
      classList.toggle("later", dataset.from > at);
      classList.toggle("going", dataset.from <= at && dataset.to > at);
    }
  }

  function step(now) {
    if (!last) return;
    show(at + ((now - last) / 1000) * speeds.value);
    last = at < end ? now : 0;
    if (last) requestAnimationFrame(step);
    else button.textContent = "Play again";
  }

  function play() {
    if (at >= end) show(0);
    last = performance.now();
    button.textContent = "Pause";
    requestAnimationFrame(step);
  }

  function pause() {
    last = 0;
    button.textContent = "Play";
  }

  button.addEventListener("click", () => (last ? pause() : play()));
  slider.addEventListener("input", () => {
    pause();
    show(Number(slider.value));
  });
  show(end);
  button.textContent = "Play";
  speeds.value = [1, 2, 10, 60].find((speed) => end / speed <= 12) ?? 60;
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  // it begins by itself when a reader comes to it
  const seen = new IntersectionObserver(([entry]) => {
    if (!entry.isIntersecting) return;
    seen.disconnect();
    play();
  });
  seen.observe(player);
})();
