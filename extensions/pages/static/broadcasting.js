// Two shapes that somebody types, one above the other: whether they fit, and
// what comes of them.
for (const piece of document.querySelectorAll(".broadcasting")) {
  const form = piece.querySelector("form");
  const said = piece.querySelector("[role=status]");
  const table = piece.querySelector("table");
  const { a, b } = form.elements;

  // A shape as people type it: "8, 8", "(8, 8)", "8 8", "torch.Size([8, 8])".
  const shapeIn = (field) => {
    const text = field.value.replace(/torch\.Size|[()[\]]/g, " ");
    const words = text.match(/[^\s,x×*]+/g) ?? [];
    const isShape =
      words.length <= 5 && words.every((word) => /^\d{1,4}$/.test(word));
    field.setAttribute("aria-invalid", !isShape);
    return isShape ? words.map(Number) : null;
  };

  // Each dimension of the result, counted from the right: the sizes that meet
  // there, null where a shape has none, and the one that comes of them, null if
  // they do not fit.
  const columns = (a, b) => {
    const count = Math.max(a.length, b.length);
    return Array.from({ length: count }, (_, at) => {
      const sizes = [a, b].map((shape) => shape.at(at - count) ?? null);
      const [one, two] = sizes.map((size) => size ?? 1);
      const size = one === 1 ? two : two === 1 || one === two ? one : null;
      return [...sizes, size];
    });
  };

  // All that is put into the page are numbers, and words that stand here.
  const say = (words, printed = "") => {
    said.innerHTML =
      printed && `<pre>&gt;&gt;&gt; (a + b).shape\n${printed}</pre>`;
    said.innerHTML += `<p>${words}</p>`;
  };

  const sayResult = (found) => {
    const shape = found.map((column) => column[2]);
    const at = shape.lastIndexOf(null);
    if (at >= 0) {
      const [one, two] = found[at];
      return say(
        `They do not fit: in dimension ${at}, ${one} meets ${two}, and neither is 1.`,
        `<span class="failed">RuntimeError: The size of tensor a (${one}) must match the size of tensor b (${two}) at non-singleton dimension ${at}</span>`,
      );
    }
    const count = shape.reduce((all, size) => all * size, 1);
    if (4 * count > 1e12)
      return say("They fit, but the result takes more than 1 TB.");
    const [numbers, bytes] = [count, 4 * count].map((n) => n.toLocaleString("en"));
    say(
      `They fit. The result has ${numbers} number${count === 1 ? "" : "s"}: ${bytes} bytes in <code>float32</code>.`,
      `torch.Size([${shape.join(", ")}])`,
    );
  };

  const cell = (size, result) => {
    const own = size ?? '<span aria-label="none" role="img">–</span>';
    if (result === null) return `<td class="failed">${own} ✗</td>`;
    if (size === result) return `<td>${own}</td>`;
    return `<td class="stretched">${own} → ${result}</td>`;
  };

  const draw = (found) => {
    const rows = ["a", "b", "a + b"].map((name, side) => {
      const cells = found.map((column) => cell(column[side], column[2]));
      return `<tr><th scope="row">${name}</th>${cells.join("")}</tr>`;
    });
    const numbers = found.map((_, at) => `<th scope="col">${at}</th>`);
    table.innerHTML = `<thead><tr><th scope="row">dim</th>${numbers.join("")}</tr></thead><tbody>${rows.join("")}</tbody>`;
  };

  const show = () => {
    const shapes = [a, b].map(shapeIn);
    const found = shapes.includes(null) ? [] : columns(...shapes);
    table.hidden = !found.length;
    draw(found);
    if (shapes.includes(null))
      say("Type at most five whole numbers below 10,000, as in <code>8, 8</code>.");
    else sayResult(found);
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const button of form.querySelectorAll("button"))
    button.addEventListener("click", () => {
      [a.value, b.value] = [button.dataset.a, button.dataset.b];
      show();
    });
  show();
}
