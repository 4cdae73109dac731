// Reshape and permute: where each number of a tensor goes, its strides, and
// whether anything is copied.

{
  const { asList, asTuple, attach, element, mark, printed, shapeIn, words } = play;
  const MOST_NUMBERS = 64;
  const VIEW_REFUSES =
    "RuntimeError: view size is not compatible with input tensor's size and " +
    "stride (at least one dimension spans across two contiguous subspaces). " +
    "Use .reshape(...) instead.";

  const product = (sizes) => sizes.reduce((all, size) => all * size, 1);

  // The strides of a tensor whose numbers lie one behind the other.
  const inOrder = (shape) => {
    const strides = [];
    let next = 1;
    for (const size of shape.toReversed()) {
      strides.unshift(next);
      next *= Math.max(size, 1);
    }
    return strides;
  };

  const isContiguous = ({ shape, strides }) => {
    const usual = inOrder(shape);
    const fits = (size, at) => size === 1 || strides[at] === usual[at];
    return product(shape) === 0 || shape.every(fits);
  };

  // The strides with which the same memory shows another shape, or null. The
  // dimensions fall into chunks, each of which lies in memory without a gap:
  // a new dimension has to lie within one of them.
  const stridesFor = ({ shape, strides }, wanted) => {
    if (product(shape) === 0)
      return asList(shape) === asList(wanted) ? strides : inOrder(wanted);
    const found = [];
    let left = wanted.length - 1;
    let [step, inChunk, taken] = [strides.at(-1) ?? 1, 1, 1];
    for (let at = shape.length - 1; at >= 0; at--) {
      inChunk *= shape[at];
      const isEnd = at === 0;
      const before = strides[at - 1];
      if (!isEnd && (shape[at - 1] === 1 || before === inChunk * step))
        continue;
      for (; left >= 0 && (taken < inChunk || wanted[left] === 1); left--) {
        found[left] = taken * step;
        taken *= wanted[left];
      }
      if (taken !== inChunk) return null;
      if (!isEnd) [step, inChunk, taken] = [before, 1, 1];
    }
    // A tensor without dimensions has one number, as what is made of it has.
    return shape.length ? (left < 0 ? found : null) : wanted.map(() => 1);
  };

  // The shape that some sizes mean, of which one may be -1: PyTorch asks in
  // this order.
  const inferred = (sizes, count) => {
    const text = asList(sizes);
    const open = sizes.indexOf(-1);
    for (const [at, size] of sizes.entries()) {
      if (size === -1 && at !== open)
        return { error: "RuntimeError: only one dimension can be inferred" };
      if (size < -1)
        return {
          error:
            `RuntimeError: invalid shape dimension ${size} at index ${at} ` +
            `of shape ${text}`,
        };
    }
    const known = product(sizes.filter((size) => size !== -1));
    const fits = known === count || (open >= 0 && known && count % known === 0);
    if (!fits)
      return {
        error: `RuntimeError: shape '${text}' is invalid for input of size ${count}`,
      };
    if (open >= 0 && known === 0)
      return {
        error:
          `RuntimeError: cannot reshape tensor of 0 elements into shape ${text} ` +
          "because the unspecified dimension size -1 can be any value and is " +
          "ambiguous",
      };
    return { shape: sizes.map((size) => (size === -1 ? count / known : size)) };
  };

  const valueAt = ({ strides, memory }, index) =>
    memory[index.reduce((place, at, axis) => place + at * strides[axis], 0)];

  // The indices of a shape, row by row.
  const indices = (shape) =>
    shape.reduce(
      (before, size) =>
        before.flatMap((index) =>
          Array.from({ length: size }, (_, at) => [...index, at]),
        ),
      [[]],
    );

  const valuesOf = (tensor) =>
    indices(tensor.shape).map((index) => valueAt(tensor, index));

  const regroup = (tensor, sizes, mayCopy) => {
    const { shape, error } = inferred(sizes, product(tensor.shape));
    if (error) return { error };
    const strides = stridesFor(tensor, shape);
    if (strides) return { ...tensor, shape, strides };
    if (!mayCopy) return { error: VIEW_REFUSES };
    const memory = valuesOf(tensor);
    return { shape, strides: inOrder(shape), memory, isView: false };
  };

  const permute = (tensor, order) => {
    const count = tensor.shape.length;
    if (order.length !== count)
      return {
        error:
          "RuntimeError: permute(sparse_coo): number of dimensions in the " +
          "tensor input does not match the length of the desired ordering of " +
          "dimensions i.e. " +
          `input.dim() = ${count} is not equal to len(dims) = ${order.length}`,
      };
    const axes = [];
    for (const axis of order) {
      if (axis < -count || axis >= count)
        return {
          error:
            "IndexError: Dimension out of range (expected to be in range of " +
            `[${-count}, ${count - 1}], but got ${axis})`,
        };
      const wrapped = axis < 0 ? axis + count : axis;
      if (axes.includes(wrapped))
        return {
          error: "RuntimeError: permute(): duplicate dims are not allowed.",
        };
      axes.push(wrapped);
    }
    const pick = (all) => axes.map((axis) => all[axis]);
    return {
      ...tensor,
      shape: pick(tensor.shape),
      strides: pick(tensor.strides),
    };
  };

  const missing = (name, argument) =>
    `TypeError: ${name}() missing 1 required positional arguments: "${argument}"`;
  const CALLS = {
    permute: {
      call: permute,
      without: missing("permute", "dims"),
    },
    reshape: {
      call: (tensor, sizes) => regroup(tensor, sizes, true),
      without: missing("reshape", "shape"),
    },
    view: {
      call: (tensor, sizes) => regroup(tensor, sizes, false),
      without:
        "TypeError: view() received an invalid combination of arguments - " +
        "got (), but expected one of:\n * (torch.dtype dtype)\n" +
        " * (tuple of ints size)\n",
    },
  };

  // A name, and its numbers as they are, as a tuple, or as a list.
  const ONE_CALL =
    /^\.?\s*(\w+)\s*\(\s*(?:\(([-−\d,\s]*)\)\s*,?|\[([-−\d,\s]*)\]\s*,?|([-−\d,\s]*))\s*\)\s*/;
  const WHOLE = /^[-−]?\d{1,9}$/;

  // Calls as people type them: "permute(2, 0, 1).reshape(4, 6)". Returns
  // { calls } or, if it is something else, { problem }.
  play.callsIn = (text) => {
    const calls = [];
    let rest = text.trim().replace(/^(?:y\s*=\s*)?x\s*(?=\.)/, "");
    do {
      const found = rest.match(ONE_CALL);
      const isChained = !calls.length || rest.startsWith(".");
      if (!found || !isChained)
        return { problem: "Type a call such as permute(2, 0, 1)." };
      const [whole, name, inTuple, inList, plain] = found;
      if (!Object.hasOwn(CALLS, name))
        return { problem: `Type reshape, view or permute, not ${name}.` };
      const inner = (inTuple ?? inList ?? plain).trim().replace(/,$/, "");
      const words = inner ? inner.split(",").map((word) => word.trim()) : [];
      if (!words.every((word) => WHOLE.test(word)))
        return { problem: "Type whole numbers with commas between them." };
      const numbers = words.map((word) => Number(word.replace("−", "-")));
      calls.push({ name, numbers, isGiven: plain?.trim() !== "" });
      rest = rest.slice(whole.length);
    } while (rest);
    return { calls };
  };

  // torch.arange(n).reshape(shape), where n is the number of its places.
  const counted = (shape) => ({
    shape,
    strides: inOrder(shape),
    memory: Array.from({ length: product(shape) }, (_, at) => at),
    isView: true,
  });

  // What some calls make of it: a tensor or { error }.
  const made = (shape, calls) => {
    let tensor = counted(shape);
    for (const { name, numbers, isGiven } of calls) {
      const { call, without } = CALLS[name];
      tensor = isGiven ? call(tensor, numbers) : { error: without };
      if (tensor.error) return tensor;
    }
    return tensor;
  };

  // The same for whoever asks PyTorch: what can be asked of a tensor there.
  play.reshaped = (shape, calls) => {
    const tensor = made(shape, calls);
    if (tensor.error) return tensor;
    return {
      shape: tensor.shape,
      strides: tensor.strides,
      isContiguous: isContiguous(tensor),
      isView: tensor.isView,
      values: valuesOf(tensor),
    };
  };

  // -- What is drawn ----------------------------------------------------------

  const nested = (tensor, index = []) =>
    index.length === tensor.shape.length
      ? String(valueAt(tensor, index))
      : `[${Array.from({ length: tensor.shape[index.length] }, (_, at) =>
          nested(tensor, [...index, at]),
        ).join(", ")}]`;

  // A number, in the color of its place in memory.
  const square = (value, count) => {
    const made = element("span", { class: "play-number" }, value);
    const place = value / Math.max(count - 1, 1);
    made.style.setProperty("--place", place.toFixed(3));
    return made;
  };

  // The last two dimensions are rows and columns; those before are blocks.
  const grid = (name, tensor) => {
    const { shape, memory } = tensor;
    const outer = shape.slice(0, -2);
    const inner = indices(shape.slice(-2));
    const blocks = indices(outer).map((index) => {
      const numbers = inner.map((place) =>
        square(valueAt(tensor, [...index, ...place]), memory.length),
      );
      const block = element("div", { class: "play-grid" }, ...numbers);
      block.style.setProperty("--columns", shape.at(-1) ?? 1);
      const label = index.length ? `${name}${asList(index)}` : "";
      return element("div", {}, element("small", {}, label), block);
    });
    const label = `${name}: ${nested(tensor)}`;
    return element(
      "div",
      { class: "play-blocks", role: "img", "aria-label": label },
      ...blocks,
    );
  };

  const facts = (name, tensor) => {
    const parts = [
      ` has shape ${asTuple(tensor.shape)}, `,
      `strides ${asTuple(tensor.strides)}, `,
      `and is ${isContiguous(tensor) ? "" : "not "}contiguous.`,
    ].map((part) => element("span", {}, part));
    const said = element("p", {}, element("code", {}, name), ...parts);
    said.className = "play-facts";
    const drawn = tensor.memory.length ? grid(name, tensor) : "";
    return element("div", {}, said, drawn);
  };

  const sayHow = (tensor) => {
    const values = valuesOf(tensor);
    if (!values.length) return "There is no number to move.";
    if (!tensor.isView)
      return (
        "`y` does not share the memory of `x`: there are no strides for that " +
        "`reshape`, so it copied the numbers."
      );
    return values.some((value, at) => value !== at)
      ? "`y` is a view. No number moves in memory: the new strides read them " +
          "in another order."
      : "`y` is a view. No number moves in memory: row by row, they are read " +
          "in the same order.";
  };

  // A shape, of not too many numbers to draw.
  const sizesIn = (text) => {
    const { shape, problem } = shapeIn(text);
    const count = problem ? 0 : product(shape);
    if (count <= MOST_NUMBERS) return { shape, problem };
    const said = count.toLocaleString("en-US");
    return {
      problem:
        `Type sizes whose product is at most ${MOST_NUMBERS}. ` +
        `These make ${said} numbers.`,
    };
  };

  const show = ({ sizes, call }, said, shown) => {
    const { shape, problem } = sizesIn(sizes.value);
    const asked = play.callsIn(call.value);
    mark(sizes, problem);
    mark(call, asked.problem);
    if (problem || asked.problem) {
      const where = problem ? "Sizes of `x`" : "Call on `x`";
      said.replaceChildren(words(`${where}: ${problem ?? asked.problem}`));
      shown.replaceChildren();
      return;
    }
    const line = asked.calls.map(({ name, numbers, isGiven }) =>
      `.${name}(${isGiven && !numbers.length ? "()" : numbers.join(", ")})`,
    );
    const tensor = made(shape, asked.calls);
    const before = facts("x", counted(shape));
    if (tensor.error) {
      said.replaceChildren(printed(`x${line.join("")}`, tensor));
      shown.replaceChildren(before);
      return;
    }
    const answer = `torch.Size(${asList(tensor.shape)})`;
    said.replaceChildren(
      printed(`y = x${line.join("")}\n>>> y.shape`, { answer }),
      words(sayHow(tensor)),
    );
    shown.replaceChildren(before, facts("y", tensor));
  };

  attach("reshape", show);
}
