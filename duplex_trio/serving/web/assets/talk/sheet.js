/** The settings: beside the conversation where there is room, else a sheet that rises over it. */

const $ = (id) => document.getElementById(id);
const narrow = matchMedia("(max-width: 900px)");

function place() {
  if ($("sheet").open) $("sheet").close();
  $(narrow.matches ? "sheet-place" : "side-place").append($("panel"));
}

narrow.addEventListener("change", place);
$("open-settings").addEventListener("click", () => $("sheet").showModal());
$("sheet-close").addEventListener("click", () => $("sheet").close());
$("sheet").addEventListener("click", (event) => {
  if (event.target === $("sheet")) $("sheet").close(); // beside it
});
place();

/** Show a field that is out of sight; one that stands beside the conversation is seen anyway. */
export function reveal(id) {
  if (!narrow.matches || $("sheet").open) return;
  $("sheet").showModal();
  $(id).focus();
}
