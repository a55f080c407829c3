package spot

import (
	"bufio"
	"fmt"
	"regexp"
	"strings"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// What the facts say of every lease.
const (
	Customer    = "spot"
	PricingMode = "spot"
)

// instanceType is the type of an instance, which the log names by its GPUs.
func instanceType(gpus, model string) string {
	switch gpus + " x " + model {
	case "1 x v100":
		return "p3.2xlarge"
	case "8 x v100":
		return "p3.16xlarge"
	case "1 x k80":
		return "p2.xlarge"
	case "8 x k80":
		return "p2.8xlarge"
	default:
		return ""
	}
}

// The lines of the log behind their instant.
//
//tidy:const
var (
	createdLine = regexp.MustCompile(`^Created instance (\S+) with (\d+) GPU\(s\) of type (\S+) in zone (\S+)$`)
	pollLine    = regexp.MustCompile(`^Instance (\S+) (not )?running in zone (\S+)$`)
	deletedLine = regexp.MustCompile(`^Successfully deleted (?:instance )?(\S+)$`)
	failedLine  = regexp.MustCompile(`^Instance .*creation failed$`)
)

// instance is what the log says of one.
type instance struct {
	id, kind, zone string
	line           int // of its creation
	from, last     span.Second
	seen           bool
	goneLine       int // of the first poll that did not find it, 0 while it runs
}

// leases turns the polls of a log into leases.
func (im *Import) leases(log File) error {
	known := map[string]*instance{}
	var list []*instance // in order of creation
	lines := bufio.NewScanner(log)
	for n := 1; lines.Scan(); n++ {
		im.Lines++
		stamp, text, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "["), "] ")
		at, err := span.Parse(stamp)
		if err != nil {
			im.leave(log.Name, n, "it begins with no instant in brackets")
			continue
		}
		var why string
		if m := createdLine.FindStringSubmatch(text); m != nil {
			i := &instance{id: m[1], kind: instanceType(m[2], m[3]), zone: m[4], line: n, from: at, last: at}
			switch {
			case known[i.id] != nil:
				why = fmt.Sprintf("the instance was created at line %d", known[i.id].line)
			case i.kind == "":
				why = fmt.Sprintf("no instance type has %s GPUs of type %.40s", m[2], m[3])
			default:
				known[i.id] = i
				list = append(list, i)
			}
		} else {
			why = poll(known, n, at, text)
		}
		if why != "" {
			im.leave(log.Name, n, why)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read %s: %w", log.Name, err)
	}
	for _, i := range list {
		im.lease(log.Name, i)
	}
	return nil
}

// poll takes what a line says of an instance that was created before it, or says why it becomes no fact.
func poll(known map[string]*instance, n int, at span.Second, text string) (why string) {
	m := pollLine.FindStringSubmatch(text)
	switch {
	case m == nil && deletedLine.MatchString(text):
		return "a deletion ends no lease: the last poll before it did"
	case m == nil && failedLine.MatchString(text):
		return "nothing was created"
	case m == nil:
		return "it is no line of an availability log"
	}
	i, running := known[m[1]], m[2] == ""
	switch {
	case i == nil:
		return "the instance has no lease: no creation of it was taken"
	case i.zone != m[3]:
		return fmt.Sprintf("the instance was created in zone %s", i.zone)
	case i.goneLine > 0:
		return fmt.Sprintf("the instance was gone at line %d", i.goneLine)
	case at < i.last:
		return "it speaks of a time before the line in front of it"
	case running:
		i.last, i.seen = at, true
	default:
		i.goneLine = n
	}
	return ""
}

// lease states an instance. One that no poll speaks of has no known end.
func (im *Import) lease(file string, i *instance) {
	if !i.seen && i.goneLine == 0 {
		im.leave(file, i.line, "no poll speaks of the instance, so its end is not known")
		return
	}
	im.Leases++
	by := fact.ByCustomer
	if i.goneLine > 0 {
		by = fact.ByProvider
		im.Reclaimed++
	}
	im.add(i.from, rankStart, "spot/"+i.id+"/started", &fact.LeaseStarted{
		Lease: i.id, Customer: Customer, SKU: i.kind, PricingMode: PricingMode, Region: i.zone, At: i.from, Count: 1, ShareMilli: fact.WholeShareMilli,
	})
	rank := rankStop
	if i.last == i.from {
		rank = rankStart // behind its own start
	}
	im.add(i.last, rank, "spot/"+i.id+"/stopped", &fact.LeaseStopped{Lease: i.id, At: i.last, By: by})
}
