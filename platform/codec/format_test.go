package codec

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	logv1 "github.com/gpuhour/gpuhour/proto/gpuhour/log/v1"
)

//tidy:const
var formatPath = filepath.Join("..", "..", "docs", "format.md")

func format(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(formatPath)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// table reads the first table after a line that starts with heading, without its head and without backticks.
func table(t *testing.T, doc, heading string) (rows [][]string) {
	t.Helper()
	_, after, ok := strings.Cut(doc, "\n"+heading)
	if !ok {
		t.Errorf("docs/format.md has no %q", heading)
		return nil
	}
	for line := range strings.SplitSeq(after, "\n") {
		switch {
		case strings.HasPrefix(line, "|"):
			var cells []string
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
				cells = append(cells, strings.ReplaceAll(strings.TrimSpace(cell), "`", ""))
			}
			rows = append(rows, cells)
		case len(rows) > 0:
			return rows[2:]
		}
	}
	return nil
}

// columns keeps the first n cells of each row.
func columns(rows [][]string, n int) (all [][]string) {
	for _, r := range rows {
		all = append(all, r[:n])
	}
	return all
}

func same(t *testing.T, what string, code, doc [][]string) {
	t.Helper()
	if diff := gocmp.Diff(code, doc); diff != "" {
		t.Errorf("%s (-code +docs/format.md):\n%s", what, diff)
	}
}

// Every message and enum has a table under its name, with the numbers, names and types of the .proto files.
func TestFormatFields(t *testing.T) {
	doc := format(t)
	for _, file := range []protoreflect.FileDescriptor{
		logv1.File_gpuhour_log_v1_fact_proto, logv1.File_gpuhour_log_v1_usage_proto, logv1.File_gpuhour_log_v1_tick_proto,
	} {
		for i := range file.Messages().Len() {
			m := file.Messages().Get(i)
			var want [][]string
			for k := range m.Fields().Len() {
				f := m.Fields().Get(k)
				want = append(want, []string{strconv.Itoa(int(f.Number())), string(f.Name()), fieldType(f)})
			}
			same(t, string(m.Name()), want, columns(table(t, doc, "#### "+string(m.Name())+"\n"), 3))
		}
		for i := range file.Enums().Len() {
			e := file.Enums().Get(i)
			prefix := strings.TrimSuffix(string(e.Values().Get(0).Name()), "UNSPECIFIED")
			var want [][]string
			for k := 1; k < e.Values().Len(); k++ {
				v := e.Values().Get(k)
				want = append(want, []string{strconv.Itoa(int(v.Number())), strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix))})
			}
			same(t, string(e.Name()), want, columns(table(t, doc, "#### "+string(e.Name())+"\n"), 2))
		}
	}
}

func fieldType(f protoreflect.FieldDescriptor) string {
	name := f.Kind().String()
	switch {
	case f.Message() != nil:
		name = string(f.Message().Name())
	case f.Enum() != nil:
		name = string(f.Enum().Name())
	}
	if f.IsList() {
		name = "repeated " + name
	}
	return name
}

func TestFormatTypes(t *testing.T) {
	var want [][]string
	for _, typ := range types {
		want = append(want, []string{string(typ), string(newMessage(typ).ProtoReflect().Descriptor().Name()), kind(typ)})
	}
	same(t, "types", want, columns(table(t, format(t), "### Types"), 3))
	for _, words := range [][2]string{{"wall", string(fact.Wall)}, {"stopped", string(fact.Halted)}, {"arrears", string(fact.ByArrears)}} {
		if words[0] != words[1] {
			t.Errorf("the word is %q in the document and %q in core/fact", words[0], words[1])
		}
	}
}

func TestFormatLists(t *testing.T) {
	doc := format(t)
	numbers := func(all map[int]string) (rows [][]string) {
		for n, name := range all {
			rows = append(rows, []string{strconv.Itoa(n), name})
		}
		slices.SortFunc(rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
		return rows
	}
	same(t, "reasons", numbers(map[int]string{
		int(usage.ReasonNone): "none", int(usage.ReasonNotSupported): "not_supported", int(usage.ReasonNotAvailable): "not_available",
		int(usage.ReasonPermission): "permission", int(usage.ReasonLost): "lost", int(usage.ReasonStale): "stale",
		int(usage.ReasonTimeout): "timeout", int(usage.ReasonError): "error",
	}), columns(table(t, doc, "**Reasons**"), 2))
	kinds := map[int]string{}
	for _, k := range usage.FaultKinds() {
		kinds[int(k)] = k.String()
	}
	same(t, "fault kinds", numbers(kinds), columns(table(t, doc, "**Fault kinds:**"), 2))
	same(t, "quarantine", [][]string{
		{string(usage.Undecodable)}, {string(usage.WrongPartition)}, {string(usage.SequenceConflict)}, {string(usage.AheadOfTick)}, {string(usage.BadSignature)},
	}, columns(table(t, doc, "## Quarantine"), 1))
	var limits [][]string
	for _, l := range []struct {
		name  string
		value int
	}{
		{"partitions", Partitions},
		{"bytes of a token", maxTokenBytes},
		{"bytes of a name", fact.MaxNameBytes},
		{"bytes of a key", fact.MaxKeyBytes},
		{"bytes of a note", fact.MaxNoteBytes},
		{"bytes of a contract document", fact.MaxDocument},
		{"labels of a lease", fact.MaxLabels},
		{"devices of a lease", fact.MaxDevices},
		{"milli of a whole device", fact.WholeShareMilli},
		{"milli of a device that may be sold at once", fact.MaxSaleableMilli},
		{"blocks of a batch", usage.MaxBlocks},
		{"faults of a block", usage.MaxFaults},
		{"gaps of a batch", usage.MaxGaps},
		{"seconds ahead of a tick", usage.MaxAheadSeconds},
		{"bytes of a message with its headers", bus.MaxMessageBytes},
	} {
		limits = append(limits, []string{l.name, strconv.Itoa(l.value)})
	}
	same(t, "limits", limits, table(t, doc, "## Limits"))
}

// The worked minute is written by the code that it explains.
func TestFormatWorkedMinute(t *testing.T) {
	const begin, end = "go test ./platform/codec -run WorkedMinute -->\n", "<!-- end of the worked minute -->"
	doc := format(t)
	before, rest, ok := strings.Cut(doc, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("docs/format.md has no place for the worked minute")
	}
	golden(t, formatPath, before+begin+workedMinute(t)+end+after)
}

func workedMinute(t *testing.T) string {
	var w strings.Builder
	started, err := EncodeFact(fact.Fact{Key: "l1/start", Body: &fact.LeaseStarted{
		Lease: "l1", Customer: "acme", SKU: "h100-80g", PricingMode: "on_demand", At: minute.Start(),
		Devices: []fact.Share{{Node: "node7", Device: "GPU-0", ShareMilli: 1000}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	hash := fact.HashBytes(fact.TypeLeaseStarted, started.Data)
	w.WriteString("\n**The lease**, fact 2 of `" + bus.Facts + "`, on `" + started.Subject + "`:\n\n```\n")
	for _, name := range []string{headerSpec, headerID, headerSource, headerType, headerSubject, headerContent} {
		fmt.Fprintf(&w, "%s: %s\n", name, started.Header[name])
	}
	w.WriteString("\n")
	writeFields(&w, new(logv1.LeaseStarted), started.Data)
	fmt.Fprintf(&w, "\nhash = SHA-256(%q, 00, the %d bytes above) =\n%x\n```\n", fact.TypeLeaseStarted, len(started.Data), hash)

	block := workedBlock()
	data := block.Append(nil)
	batch, err := EncodeBatch(&usage.Batch{
		Node: "node7", Boot: "b1", Run: 3, Seq: 1, PreviousRun: 2, PreviousSeq: 360, Minute: minute, Spoken: span.FullMinute,
		Clock: usage.ClockEvidence{State: usage.ClockSynchronised, OffsetNanos: -18000, ErrorBoundNano: 420000}, Blocks: [][]byte{data},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.WriteString("\n**The batch**, message 1 of `" + bus.Usage + "`, on `" + batch.Subject + "`; its one block is below:\n\n```\n")
	writeFields(&w, new(logv1.UsageBatch), batch.Data)
	w.WriteString("```\n\n**The block** of `GPU-0`, " + strconv.Itoa(len(data)) + " bytes:\n\n```\n")
	writeBlock(&w, block, data)

	tick, err := EncodeTick(Tick{FactsSeq: 2, At: minute.End()})
	if err != nil {
		t.Fatal(err)
	}
	w.WriteString("```\n\n**The tick**, message 2 of `" + bus.Usage + "`, on `" + tick.Subject + "`; it ends block 2, the first of this log:\n\n```\n")
	writeFields(&w, new(logv1.Tick), tick.Data)
	w.WriteString("```\n\n")
	w.WriteString(workedResult(t, received(batch)))
	return w.String()
}

const minute span.Minute = 29_536_320 // 2026-02-27T12:00:00Z

// workedBlock has one of each form that a series can take.
func workedBlock() *usage.Block {
	b := &usage.Block{Device: "GPU-0", Seen: span.FullMinute &^ span.Bit(17), Reason: usage.ReasonTimeout}
	b.Faults = []usage.Fault{{Second: 50, Kind: usage.FaultXID, Code: 31}}
	b.Seen.Each(func(i int) {
		power := int64(640_000)
		b.Busy[i] = 97
		if i >= 30 && i < 45 {
			power, b.Busy[i] = 120_000, 0
		}
		b.Memory.Set(i, 70<<30)
		if i < 50 {
			b.Power.Set(i, power)
		}
		if i%20 == 0 {
			b.Energy.Set(i, 9_000_000_000+int64(i)*640_000)
		}
	})
	b.Busy[18] = usage.BusyUnknown
	return b
}

// writeFields writes a body field by field, as bytes and as what they mean.
func writeFields(w *strings.Builder, m proto.Message, data []byte) {
	fields := m.ProtoReflect().Descriptor().Fields()
	for len(data) > 0 {
		number, wire, tag := protowire.ConsumeTag(data)
		n := protowire.ConsumeFieldValue(number, wire, data[tag:])
		f := fields.ByNumber(number)
		fmt.Fprintf(w, "%s  %s", hex.EncodeToString(data[:tag]), f.Name())
		value := data[tag : tag+n]
		switch wire {
		case protowire.BytesType:
			content, _ := protowire.ConsumeBytes(value)
			shown := hex.EncodeToString(content)
			if f.Kind() == protoreflect.StringKind {
				shown = strconv.Quote(string(content)) + "  " + shown
			} else if f.Name() == "blocks" {
				shown = "..."
			}
			fmt.Fprintf(w, ", %d bytes %s: %s\n", len(content), hex.EncodeToString(value[:n-len(content)]), shown)
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(value)
			fmt.Fprintf(w, " %d: %s\n", v, hex.EncodeToString(value))
		default:
			fmt.Fprintf(w, ": %s\n", hex.EncodeToString(value))
		}
		data = data[tag+n:]
	}
}

// writeBlock takes a block apart by the lengths that its parts have alone.
func writeBlock(w *strings.Builder, b *usage.Block, data []byte) {
	bare := usage.Block{Device: b.Device, Seen: b.Seen, Busy: b.Busy, Reason: b.Reason}
	base := len(bare.Append(nil))
	alone := func(set func(o *usage.Block)) int { // a series is one byte when absent
		o := bare
		set(&o)
		return len(o.Append(nil)) - base + 1
	}
	parts := []struct {
		name   string
		length int
	}{
		{"version", 1},
		{"name", 1 + len(b.Device)},
		{"seen, all but second 17", 8},
		{"busy", b.Seen.Count()},
		{"reason, a timeout", 1},
		{"memory, as seen: 70 GiB and no change", alone(func(o *usage.Block) { o.Memory = b.Memory })},
		{"power, partial, to second 49", alone(func(o *usage.Block) { o.Power = b.Power })},
		{"energy, partial, each 20 s", alone(func(o *usage.Block) { o.Energy = b.Energy })},
		{"throttle, absent", alone(func(o *usage.Block) { o.Throttle = b.Throttle })},
		{"faults, one: second 50, XID 31", alone(func(o *usage.Block) { o.Faults = b.Faults })},
	}
	for _, p := range parts {
		fmt.Fprintf(w, "%s\n    %s\n", p.name, hex.EncodeToString(data[:p.length]))
		data = data[p.length:]
	}
	if len(data) > 0 {
		fmt.Fprintf(w, "LEFT OVER %x\n", data)
	}
}

// workedResult says what a reader knows of the minute then.
func workedResult(t *testing.T, m bus.Message) string {
	b, q := DecodeBatch(m)
	if q != nil {
		t.Fatal(q)
	}
	rows := usage.Rows(b.Node, "GPU-0", b.Minute, []usage.Piece{{Run: b.Run, Seq: b.Seq, Spoken: b.Spoken, Block: b.Blocks[0]}}, nil)
	if len(rows) != 1 || !slices.Equal(rows[0].Data, b.Blocks[0]) {
		t.Fatalf("rows %+v, want the block as it came", rows)
	}
	var known usage.Minute
	known.AddRow(&rows[0])
	idle := 0
	known.BusyKnown().Each(func(i int) {
		if known.Busy[i] == 0 {
			idle++
		}
	})
	return fmt.Sprintf("A reader then knows %d seconds of the minute that the node spoke for, %d in which the device was seen, %d with a known\nutilisation and %d of those idle. Lease `l1` holds all 60.\n\n",
		known.Spoken.Count(), known.Seen.Count(), known.BusyKnown().Count(), idle)
}
