package render_test

import (
	"fmt"

	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

func ExampleTable() {
	t := render.Table{Width: 40, Indent: 2, Columns: []render.Column{
		{Head: "Node", Fit: render.Clip},
		{Head: "机型"},
		{Head: "GPU-hours", Align: render.Right},
	}}
	t.Row("rack-12-unit-7.cn-west.example", "八卡 H100", "5,376.000")
	t.Note("note", "one line\nonly")
	t.Row("rack-2", "单卡", "1.5")
	t.Total("2 nodes", "", "5,377.500")
	fmt.Print(t.String())
	// Output:
	// Node                机型       GPU-hours
	// ────────────────────────────────────────
	// rack-12-unit-7.cn…  八卡 H100  5,376.000
	//   note  one line<U+000A>only
	//
	// rack-2              单卡             1.5
	// ────────────────────────────────────────
	// 2 nodes                        5,377.500
}
