// What a reader has read of the course: whoever has seen the end of a page has
// read it. It is kept in this browser, and sent nowhere.
{
  const KEY = "course-read";
  const load = () => {
    try {
      return new Set(JSON.parse(localStorage.getItem(KEY) ?? "[]"));
    } catch {
      return new Set(); // nothing is kept here, or nothing that can be read
    }
  };
  const keep = (read) => {
    try {
      if (read.size) localStorage.setItem(KEY, JSON.stringify([...read]));
      else localStorage.removeItem(KEY);
    } catch {
      // Nothing can be kept here.
    }
  };

  const end = document.querySelector(".course-place");
  if (end) {
    const seen = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      seen.disconnect();
      keep(load().add(end.dataset.page));
    });
    seen.observe(end);
  }

  const items = [...document.querySelectorAll(".course > li")];
  const said = document.querySelector(".course-progress");
  const show = () => {
    const read = load();
    const isRead = (item) => read.has(item.dataset.page);
    const count = items.filter(isRead).length;
    for (const item of items) item.classList.toggle("is-read", isRead(item));
    said.hidden = !count;
    said.textContent = `You have read ${count} of ${items.length} pages. `;
    const next = items.find((item) => !isRead(item));
    if (next) said.append("Next: ", next.querySelector("a").cloneNode(true));
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Forget what I have read";
    button.title = "It is kept in this browser alone";
    button.addEventListener("click", () => {
      keep(new Set());
      show();
      said.textContent = "Forgotten.";
      said.hidden = false;
    });
    said.append(button);
  };
  if (said) {
    show();
    addEventListener("pageshow", (event) => event.persisted && show());
  }
}
