// What the pieces to play with share. Each piece adds what it computes to
// `play`, apart from what it shows, so that a test can compare it with PyTorch.

window.play = (() => {
  // How much a piece draws.
  const MOST_AXES = 6;
  const LARGEST = 100_000;
  const OUTER = /^(?:torch\.Size)?\s*(?:\((.*)\)|\[(.*)\]|\(\[(.*)\]\))$/;

  // A shape as people type it: "8, 8", "(8, 8)", "8 8", "torch.Size([8, 8])".
  // Returns { shape } or, if it is none, { problem }.
  const shapeIn = (text) => {
    let inner = text.trim();
    for (let found; (found = inner.match(OUTER)); )
      inner = (found[1] ?? found[2] ?? found[3]).trim();
    const words = inner.replace(/,\s*$/, "").split(/\s*[,x×*]\s*|\s+/);
    if (!inner) return { shape: [] };
    for (const word of words) {
      if (/^[-−]\d+$/.test(word))
        return { problem: `A size is never negative, but here is ${word}.` };
      if (!/^\d+$/.test(word))
        return { problem: "Type whole numbers with commas between them." };
      if (Number(word) > LARGEST)
        return { problem: "Type sizes of at most 100,000." };
    }
    if (words.length > MOST_AXES)
      return { problem: `Type at most ${MOST_AXES} sizes.` };
    return { shape: words.map(Number) };
  };

  // As Python prints them.
  const asTuple = (sizes) =>
    sizes.length === 1 ? `(${sizes[0]},)` : `(${sizes.join(", ")})`;
  const asList = (sizes) => `[${sizes.join(", ")}]`;

  const element = (tag, attributes, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes))
      made.setAttribute(name, value);
    made.append(...children);
    return made;
  };

  // Words with `code` between them, as a paragraph.
  const words = (text) =>
    element(
      "p",
      {},
      ...text
        .split("`")
        .map((part, at) => (at % 2 ? element("code", {}, part) : part)),
    );

  // What Python shows of a line: what it prints, or the error.
  const printed = (line, { answer = "", error = "" }) =>
    element(
      "code",
      { class: "play-printed" },
      `>>> ${line}\n`,
      error
        ? element("span", { class: "play-error" }, error.trimEnd())
        : answer,
    );

  // What is wider than the page can be scrolled with the keyboard.
  const reach = (box) => {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  };

  // Shows what a form says, now and whenever somebody changes it. `show` gets
  // the fields by their names, and two places: for what is read out, and for
  // what is drawn.
  const attach = (name, show) => {
    for (const piece of document.querySelectorAll(`[data-play="${name}"]`)) {
      const form = piece.querySelector("form");
      const said = piece.querySelector(".play-said");
      const shown = piece.querySelector(".play-shown");
      const update = () => {
        show(form.elements, said, shown);
        reach(shown);
      };
      form.addEventListener("input", update);
      form.addEventListener("submit", (event) => event.preventDefault());
      form.addEventListener("reset", () => setTimeout(update));
      for (const button of form.querySelectorAll("[data-example]"))
        button.addEventListener("click", () => {
          const example = JSON.parse(button.dataset.example);
          for (const [field, value] of Object.entries(example))
            form.elements[field].value = value;
          update();
        });
      new ResizeObserver(() => reach(shown)).observe(shown);
      update();
    }
  };

  // Says whether anything is wrong with a field.
  const mark = (field, problem) => {
    if (problem) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  };

  return { asList, asTuple, attach, element, mark, printed, shapeIn, words };
})();
