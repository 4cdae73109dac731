// A gradient by hand: what (w * x + b - y) ** 2 computes, and the gradients
// that flow back through it.

{
  const { attach, mark } = play;
  const NAMES = ["w", "x", "b", "y"];
  const LARGEST = 1000;
  const RATE = 0.01;
  const round = Math.fround; // as each step of PyTorch does in float32

  // What is computed on the way to the loss, and the gradient of each of it.
  play.gradient = (numbers) => {
    const [w, x, b, y] = NAMES.map((name) => round(numbers[name]));
    const product = round(w * x);
    const sum = round(product + b);
    const difference = round(sum - y);
    const loss = round(difference * difference);
    const slope = round(2 * difference);
    return {
      values: { w, x, b, y, product, sum, difference, loss },
      gradients: {
        w: round(slope * x),
        x: round(slope * w),
        b: slope,
        y: -slope,
        product: slope,
        sum: slope,
        difference: slope,
        loss: 1,
      },
    };
  };

  // w and b, each less a hundredth of its gradient.
  play.step = (numbers) => {
    const { values, gradients } = play.gradient(numbers);
    const stepped = (name) =>
      round(values[name] - round(round(RATE) * gradients[name]));
    return { ...values, w: stepped("w"), b: stepped("b") };
  };

  // A number with four digits behind the point, or with four in all.
  play.fourDigits = (number) => {
    const text =
      Math.abs(number) < 10_000
        ? String(Number(number.toFixed(4)))
        : number.toExponential(3).replace("+", "");
    return (text === "-0" ? "0" : text).replace("-", "−");
  };

  // The shortest text that means the same number in float32.
  const shortest = (number) => {
    let digits = 1;
    while (round(number.toPrecision(digits)) !== number) digits++;
    return String(Number(number.toPrecision(digits)));
  };

  const show = (fields, said, shown) => {
    const numbers = {};
    for (const name of NAMES) {
      const { value } = fields[name];
      const isBad = value.trim() === "" || !(Math.abs(value) <= LARGEST);
      mark(fields[name], isBad);
      if (isBad) {
        said.textContent = `Type a number from −1000 to 1000 for ${name}.`;
        return;
      }
      numbers[name] = Number(value);
      fields[`${name}-slider`].value = value;
    }
    const { values, gradients } = play.gradient(numbers);
    const slopes = {
      w: values.x,
      x: values.w,
      b: 1,
      y: -1,
      product: 1,
      sum: 1,
      difference: 2 * values.difference,
    };
    for (const [kind, found] of Object.entries({ values, gradients, slopes }))
      for (const place of shown.querySelectorAll(`[data-${kind}]`))
        place.textContent = play.fourDigits(found[place.dataset[kind]]);
    const { fourDigits } = play;
    const each = NAMES.map((name) => `${name}\u00a0${fourDigits(gradients[name])}`);
    said.textContent =
      `The loss is ${fourDigits(values.loss)}. Gradients: ${each.join(", ")}.`;
    const graph = [...shown.querySelectorAll("[data-node]")].map((node) => {
      const [name, value, gradient] = [...node.children].map(
        (part) => part.textContent,
      );
      return `${name} is ${value}, ${gradient}`;
    });
    shown.querySelector("svg").setAttribute("aria-label", `${graph.join("; ")}.`);
  };

  for (const form of document.querySelectorAll('[data-play="gradient"] form')) {
    const fields = form.elements;
    // Before the piece is shown again: a slider moves its number.
    form.addEventListener("input", ({ target }) => {
      const [name, isSlider] = target.name.split("-");
      if (isSlider) fields[name].value = target.value;
    });
    fields.step.addEventListener("click", () => {
      const numbers = NAMES.map((name) => [name, Number(fields[name].value)]);
      const stepped = play.step(Object.fromEntries(numbers));
      for (const name of ["w", "b"]) fields[name].value = shortest(stepped[name]);
      fields.w.dispatchEvent(new Event("input", { bubbles: true }));
    });
  }
  attach("gradient", show);
}
