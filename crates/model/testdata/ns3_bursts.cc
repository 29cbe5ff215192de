// Users who ask at once over one line, packet by packet in ns-3: an independent implementation of TCP.
//
//   g++ -std=c++17 -O1 ns3_bursts.cc -o ns3_bursts $(pkg-config --cflags --libs ns3-internet ns3-point-to-point ns3-traffic-control)
//   ./ns3_bursts > ns3_bursts.csv
//
// with the packages libns3-dev and libgsl-dev of Debian. Each user opens a connection at time zero, asks with 64 B and gets so many
// bytes back; the server closes. Segments of 1,448 B with timestamps, ten of them first, a first-in first-out queue
// that holds everything. A point-to-point device of ns-3 adds 2 B to every packet.
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"
#include <cstdio>
#include <map>

using namespace ns3;

static const uint32_t REQUEST = 64;

struct Burst {
    uint32_t size;
    uint32_t served = 0;
    double sum = 0;
    std::map<Ptr<Socket>, uint32_t> got;
    std::map<Ptr<Socket>, uint32_t> left;

    void Connected(Ptr<Socket> socket) { socket->Send(Create<Packet>(REQUEST)); }

    void Answer(Ptr<Socket> socket) {
        while (Ptr<Packet> packet = socket->Recv()) {
            if (packet->GetSize() == 0) break;
            got[socket] += packet->GetSize();
            if (got[socket] == REQUEST) {
                left[socket] = size;
                Push(socket, 0);
            }
        }
    }

    // What the send buffer takes now; the rest when it empties.
    void Push(Ptr<Socket> socket, uint32_t) {
        auto at = left.find(socket);
        if (at == left.end()) return;
        while (at->second > 0) {
            uint32_t room = std::min(at->second, socket->GetTxAvailable());
            if (room == 0) return;
            int sent = socket->Send(Create<Packet>(room));
            if (sent <= 0) return;
            at->second -= sent;
        }
        left.erase(at);
        socket->Close();
    }

    void Accepted(Ptr<Socket> socket, const Address&) {
        socket->SetRecvCallback(MakeCallback(&Burst::Answer, this));
        socket->SetSendCallback(MakeCallback(&Burst::Push, this));
    }

    void Read(Ptr<Socket> socket) {
        while (Ptr<Packet> packet = socket->Recv()) {
            if (packet->GetSize() == 0) break;
            got[socket] += packet->GetSize();
            if (got[socket] == size) {
                served++;
                sum += Simulator::Now().GetSeconds();
            }
        }
    }

    double Turnaround(uint32_t users, const char* rate, double rtt_ms) {
        NodeContainer nodes;
        nodes.Create(2);
        PointToPointHelper line;
        line.SetDeviceAttribute("DataRate", StringValue(rate));
        line.SetDeviceAttribute("Mtu", UintegerValue(1500));
        line.SetChannelAttribute("Delay", TimeValue(MicroSeconds(rtt_ms * 500)));
        line.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("100000p"));
        NetDeviceContainer devices = line.Install(nodes);
        InternetStackHelper stack;
        stack.Install(nodes);
        Ipv4AddressHelper addresses("198.18.0.0", "255.255.255.0");
        Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
        // Without this there would be a fair queue before the line.
        TrafficControlHelper().Uninstall(devices);

        Ptr<Socket> listener = Socket::CreateSocket(nodes.Get(1), TcpSocketFactory::GetTypeId());
        listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), 80));
        listener->Listen();
        listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                    MakeCallback(&Burst::Accepted, this));
        for (uint32_t user = 0; user < users; user++) {
            Ptr<Socket> socket = Socket::CreateSocket(nodes.Get(0), TcpSocketFactory::GetTypeId());
            socket->SetConnectCallback(MakeCallback(&Burst::Connected, this),
                                       MakeNullCallback<void, Ptr<Socket>>());
            socket->SetRecvCallback(MakeCallback(&Burst::Read, this));
            socket->Connect(InetSocketAddress(interfaces.GetAddress(1), 80));
        }
        Simulator::Stop(Seconds(600));
        Simulator::Run();
        Simulator::Destroy();
        return served == users ? sum / users : -1;
    }
};

int main() {
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 20));
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpLinuxReno::GetTypeId()));
    std::printf("# ns-3 3.37 of Debian; made by ns3_bursts.cc\n# rate_mbit_s,rtt_ms,size_B,users,turnaround_ms\n");
    struct { const char* rate; double mbit, rtt_ms; } lines[] = {{"10Mbps", 10, 0.5}, {"10Mbps", 10, 90}, {"100Mbps", 100, 20}};
    for (auto& line : lines)
        for (uint32_t size : {3000u, 6000u, 12000u, 125000u})
            for (uint32_t users : {1u, 5u, 10u, 50u}) {
                Burst burst{size};
                std::printf("%g,%g,%u,%u,%.4f\n", line.mbit, line.rtt_ms, size, users,
                            1e3 * burst.Turnaround(users, line.rate, line.rtt_ms));
            }
}
