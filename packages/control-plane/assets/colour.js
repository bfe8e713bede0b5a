// A colour and its text are one value: the picker fills the text, and shows a colour that is typed.

document.addEventListener("input", ({ target }) => {
  const text = document.getElementById(target.dataset.picks ?? "");
  if (text !== null) {
    text.value = target.value;
    text.dispatchEvent(new Event("input", { bubbles: true }));
  } else if (/^#[0-9a-f]{6}$/i.test(target.value)) {
    const picker = document.querySelector(`[data-picks="${target.id}"]`);
    if (picker !== null) picker.value = target.value;
  }
});
