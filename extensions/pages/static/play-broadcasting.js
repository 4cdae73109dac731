// Shapes that broadcast: two shapes, aligned on the right, and what comes of
// them.

{
  const { asList, asTuple, attach, element, mark, printed, shapeIn, words } = play;

  // Each dimension of the result: the sizes that meet there, null where a
  // shape has none, and the size that comes of them, null if they do not fit.
  const columns = (a, b) => {
    const count = Math.max(a.length, b.length);
    return Array.from({ length: count }, (_, at) => {
      const left = a[at - count + a.length] ?? null;
      const right = b[at - count + b.length] ?? null;
      const [one, two] = [left ?? 1, right ?? 1];
      const fits = one === two || one === 1 || two === 1;
      return { left, right, size: fits ? (one === 1 ? two : one) : null };
    });
  };

  // What `+` of two tensors of these shapes gives: { shape } or { error }.
  play.broadcast = (a, b) => {
    const found = columns(a, b);
    const at = found.findLastIndex(({ size }) => size === null);
    if (at < 0) return { shape: found.map(({ size }) => size) };
    const { left, right } = found[at];
    return {
      error:
        `RuntimeError: The size of tensor a (${left}) must match the size of ` +
        `tensor b (${right}) at non-singleton dimension ${at}`,
    };
  };

  const UNITS = ["bytes", "kB", "MB", "GB"];
  const memory = (bytes) => {
    let unit = 0;
    for (; bytes >= 1000 && unit < UNITS.length - 1; unit++) bytes /= 1000;
    const value = Number(bytes.toPrecision(3)).toLocaleString("en-US");
    return `${value} ${UNITS[unit]}`;
  };

  const list = (places) =>
    places.length < 2
      ? places.join()
      : `${places.slice(0, -1).join(", ")} and ${places.at(-1)}`;

  // Says in which dimensions a tensor is stretched; not where it fits by itself.
  const stretched = (name, found, side) => {
    const isOther = (column) => column[side] !== column.size;
    const places = [...found.keys()].filter((at) => isOther(found[at]));
    if (!places.length) return "";
    const plural = places.length > 1 ? "s" : "";
    return ` \`${name}\` is stretched along dimension${plural} ${list(places)}.`;
  };

  const countOf = (shape) => shape.reduce((all, size) => all * size, 1);

  const sayShape = (shape, found) => {
    const count = countOf(shape);
    const numbers = `${count.toLocaleString("en-US")} number${count === 1 ? "" : "s"}`;
    const how = stretched("a", found, "left") + stretched("b", found, "right");
    return (
      `They fit. The result has ${numbers}, ${memory(4 * count)} in \`float32\`.` +
      (how || " Neither is stretched.")
    );
  };

  const sayMisfit = (a, b, found) => {
    const misfits = found.filter(({ size }) => size === null);
    const { left, right } = misfits.at(-1);
    const longer = a.length === b.length ? "" : " of the longer shape";
    return (
      `They do not fit. In dimension ${found.indexOf(misfits.at(-1))}${longer}, ` +
      `${left} meets ${right}, and neither is 1.` +
      (misfits.length > 1 ? " The error names the last such dimension." : "")
    );
  };

  const cell = (size, result) => {
    const own = size ?? element("span", { "aria-label": "none", role: "img" }, "–");
    if (result === null)
      return element("td", { class: "play-misfit" }, own, " ✗");
    if (size === result) return element("td", {}, own);
    const arrow = element("span", {}, ` → ${result}`);
    return element("td", { class: "play-stretched" }, own, arrow);
  };

  const table = (found) => {
    const row = (name, cells) =>
      element("tr", {}, element("th", { scope: "row" }, name), ...cells);
    const numbers = [...found.keys()].map((at) =>
      element("th", { scope: "col" }, at),
    );
    const cells = (side) =>
      found.map((column) => cell(column[side], column.size));
    return element(
      "table",
      {},
      element("thead", {}, row("dim", numbers)),
      element(
        "tbody",
        {},
        row("a", cells("left")),
        row("b", cells("right")),
        row("a + b", found.map(({ size }) => cell(size, size))),
      ),
    );
  };

  // A shape of a tensor that fits into the memory of some machine.
  const MOST_BYTES = 1e12;
  const problemOf = (shape) =>
    4 * countOf(shape) > MOST_BYTES
      ? `${asTuple(shape)} is more than 1 TB in \`float32\`. Type smaller sizes.`
      : "";

  const show = (fields, said, shown) => {
    const complain = (problem) => {
      said.replaceChildren(words(problem));
      shown.replaceChildren();
    };
    const shapes = ["a", "b"].map((name) => {
      const { shape, problem } = shapeIn(fields[name].value);
      const wrong = problem ?? problemOf(shape);
      mark(fields[name], wrong);
      return { shape, wrong: wrong && `Shape of \`${name}\`: ${wrong}` };
    });
    const problem = shapes.map(({ wrong }) => wrong).find(Boolean);
    if (problem) return complain(problem);
    const [a, b] = shapes.map(({ shape }) => shape);
    const found = columns(a, b);
    const { shape, error } = play.broadcast(a, b);
    const large = shape && problemOf(shape);
    if (large) return complain(`They fit, but the result ${large}`);
    const answer = shape && `torch.Size(${asList(shape)})`;
    said.replaceChildren(
      printed("(a + b).shape", { answer, error }),
      words(shape ? sayShape(shape, found) : sayMisfit(a, b, found)),
    );
    shown.replaceChildren(found.length ? table(found) : "");
  };

  attach("broadcasting", show);
}
