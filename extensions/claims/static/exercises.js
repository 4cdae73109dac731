// On paper every fold is open, so hints and answers follow the text, where
// nobody reads them by accident.
{
  const article = document.querySelector("article");
  const boxes = [...document.querySelectorAll(".exercise")];
  let back = [];

  const gather = () => {
    const answers = document.createElement("section");
    answers.className = "exercise-answers";
    const title = document.createElement("h2");
    title.textContent = "Hints and answers";
    answers.append(title);
    boxes.forEach((box, place) => {
      const number = `Exercise ${place + 1}`;
      const label = document.createElement("p");
      label.textContent = number;
      label.className = "exercise-number";
      box.prepend(label);
      answers.append(label.cloneNode(true));
      for (const fold of box.querySelectorAll(":scope > details")) {
        const stays = document.createComment("a fold");
        fold.replaceWith(stays);
        answers.append(fold);
        back.push(() => stays.replaceWith(fold));
      }
      back.push(() => label.remove());
    });
    article.append(answers);
    back.push(() => answers.remove());
  };

  if (boxes.length) {
    addEventListener("beforeprint", gather);
    addEventListener("afterprint", () => {
      for (const undo of back) undo();
      back = [];
    });
  }
}
