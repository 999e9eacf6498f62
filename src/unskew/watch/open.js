const carried = JSON.parse(store)
const nearest = (best, id) => Math.abs(id - wanted) < Math.abs(best - wanted) ? id : best
const id = Object.keys(carried).map(Number).reduce(nearest, last)
const [text, ...columns] = carried[id]
story.text = text
const plottable = (column) => Object.fromEntries(
  Object.entries(column).map(([name, values]) => [name, values.map((value) => value ?? NaN)]))
sources.forEach((source, i) => { source.data = plottable(columns[i]) })
spans.forEach((span) => { span.location = id })
if (spinner.value !== id) spinner.value = id
