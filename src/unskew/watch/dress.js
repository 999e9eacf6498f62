// Canvases know no style sheets: give them the reader's colours by hand.
const preferred = matchMedia("(prefers-color-scheme: dark)")
const dress = () => {
  const [ink, line] = preferred.matches ? ["#c9d1d9", "#484f58"] : ["#3d444d", "#c4ccd4"]
  const colours = {
    axis_label_text_color: ink, major_label_text_color: ink, axis_line_color: line, major_tick_line_color: line,
    grid_line_color: line,
  }
  for (const plot of figures) {
    for (const part of [...plot.left, ...plot.right, ...plot.below, ...plot.center]) {
      for (const [name, colour] of Object.entries(colours)) {
        if (name in part.properties) part[name] = colour
      }
    }
  }
}
preferred.addEventListener("change", dress)
dress()
