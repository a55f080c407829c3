package gpuhour_test
import ("context";"fmt";"github.com/gpuhour/gpuhour/platform/bus";"github.com/gpuhour/gpuhour/platform/journal")
func dump(b bus.Bus){
	r:=journal.Open(b,journal.Position{})
	for { bl,_,ok,err:=r.Next(context.Background()); if err!=nil||!ok {fmt.Println(err);return}
	 fmt.Println("block",bl.Seq,"F",bl.FactsSeq,"at",bl.At,"usage",len(bl.Usage)); for _,f:=range bl.Facts{fmt.Printf("   %d %s %+v\n",f.Seq,f.Key,f.Body)}}
}
