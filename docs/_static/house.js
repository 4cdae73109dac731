// Small comforts; the site is whole without them.

// Escape closes the panel of a claim that hover or focus has opened. The next
// visit opens it again.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const open = ".claim-proof:is(:hover, :focus-within)";
  for (const proof of document.querySelectorAll(open)) {
    proof.classList.add("claim-dismissed");
    for (const visit of ["pointerenter", "pointerleave", "focusout"]) {
      proof.addEventListener(
        visit,
        () => proof.classList.remove("claim-dismissed"),
        { once: true },
      );
    }
  }
});

// The ledger shows the rows that hold the words and have the result.
for (const form of document.querySelectorAll(".ledger-filter")) {
  const rows = [...document.querySelectorAll(".ledger-table tbody tr")];
  const filter = () => {
    const words = form.elements.words.value.toLowerCase().trim();
    const verdict = form.elements.verdict.value;
    let count = 0;
    for (const row of rows) {
      const fits =
        row.textContent.toLowerCase().includes(words) &&
        (verdict === "" || row.dataset.verdict === verdict);
      row.hidden = !fits;
      count += fits;
    }
    for (const chapter of document.querySelectorAll(".ledger-chapter")) {
      chapter.hidden = !chapter.querySelector("tbody tr:not([hidden])");
    }
    form.querySelector("output").textContent =
      `${count} of ${rows.length} claims`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
}

// What scrolls sideways can be reached, and scrolled, with the keyboard.
const reach = () => {
  for (const box of document.querySelectorAll("pre, .cell-output")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
};
addEventListener("resize", reach);
reach();

// Furo leaves both of its side columns without a name.
document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Site");
document.querySelector(".toc-drawer")?.setAttribute("aria-label", "Page");
