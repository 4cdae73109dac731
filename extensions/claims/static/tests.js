// Whoever comes from a claim sees its tests alone, with what they call; the
// rest of the file shows when they ask for it. Without this script, all of it
// does, and the page stands at the test. Of the claims that a test is behind,
// its own comes first.
const parts = document.querySelectorAll(".proof-part");
const proof = document.querySelector(".proof");
const chosen = document.querySelector(".proof-chosen");
const show = () => {
  const target = document.getElementById(location.hash.slice(1));
  const test = target?.dataset.of?.split(" ")[0] ?? "";
  const isNeeded = (of) => of === "" || of.split(" ").includes(test);
  for (const part of parts)
    part.hidden = test !== "" && !isNeeded(part.dataset.of);
  chosen.hidden = test === "";
  proof.classList.toggle("is-alone", test !== "");
  if (test !== "") target.scrollIntoView();
};
chosen.querySelector("a").addEventListener("click", (event) => {
  event.preventDefault();
  history.pushState(null, "", location.pathname);
  show();
});
addEventListener("hashchange", show);
addEventListener("popstate", show);
show();
