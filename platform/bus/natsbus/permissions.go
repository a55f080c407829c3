package natsbus

import (
	"fmt"
	"strings"

	"github.com/gpuhour/gpuhour/platform/bus"
)

// PublisherUsers is what a server's list of users holds for who publishes on one subject alone, in the server's own language, one
// user for each nkey; the permissions alone where there is none. It may publish there, ask for the last message there, ask questions
// on one subject more (Ask), and hear its answers. Such a user belongs in an account without streams, see deploy/nats/nodes.conf.
func PublisherUsers(name, subject, question, publisher string, nkeys []string) string {
	permissions := fmt.Sprintf(`permissions: {
    publish: { allow: [%q, %q, %q] }
    subscribe: { allow: [%q] }
  }`, subject, question, directGet(bus.Usage, subject), InboxOf(publisher)+".>")
	if len(nkeys) == 0 {
		return fmt.Sprintf("# %q\n%s\n", name, strings.ReplaceAll(permissions, "\n  ", "\n"))
	}
	var out strings.Builder
	for _, k := range nkeys {
		fmt.Fprintf(&out, "{ # %q\n  nkey: %s\n  %s\n}\n", name, k, permissions)
	}
	return out.String()
}

func directGet(stream, subject string) string { return "$JS.API.DIRECT.GET." + stream + "." + subject }
