package openb

import "github.com/gpuhour/gpuhour/core/fact"

// cluster is what is free, per node and device, in milli-GPU.
type cluster struct {
	nodes  []Node
	room   [][]int64
	byName map[string]int
	device map[string]int
}

func newCluster(nodes []Node) *cluster {
	c := &cluster{byName: map[string]int{}, device: map[string]int{}}
	for _, n := range nodes {
		if n.GPUs == 0 {
			continue
		}
		c.byName[n.Name] = len(c.nodes)
		free := make([]int64, n.GPUs)
		for i := range free {
			free[i] = fact.WholeShareMilli
			c.device[n.Device(i)] = i
		}
		c.nodes, c.room = append(c.nodes, n), append(c.room, free)
	}
	return c
}

// place finds count devices with milli free each on the first node that has them; nil when none has.
func (c *cluster) place(count, milli int64) []fact.Share {
	for n, free := range c.room {
		var shares []fact.Share
		for i, f := range free {
			if f >= milli {
				shares = append(shares, fact.Share{Node: c.nodes[n].Name, Device: c.nodes[n].Device(i), ShareMilli: milli})
			}
			if int64(len(shares)) == count {
				return shares
			}
		}
	}
	return nil
}

func (c *cluster) take(shares []fact.Share) { c.add(shares, -1) }

func (c *cluster) free(shares []fact.Share) { c.add(shares, 1) }

func (c *cluster) add(shares []fact.Share, sign int64) {
	for _, s := range shares {
		c.room[c.byName[s.Node]][c.device[s.Device]] += sign * s.ShareMilli
	}
}
